// pack.cc: pack.json first, completely; then each file by its hash, opened below the folder without following links.
#include "pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "error.h"
#include "image.h"
#include "sha256.h"

namespace kf {
namespace {

constexpr size_t kPlansMax = 4096, kPinsMax = 64;
constexpr int64_t kSourceBytesMax = int64_t{4} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void bad(const std::string& text, const std::string& hint = {}) { throw Error(KFR_BAD_PACK, text, hint); }

// What somebody else can write, somebody else can make run here. Whoever may write a folder above the pack can put another pack in its place, but only one
// of ours or of root, and the digest says which one was meant.
void check_owner(int fd, const std::string& what) {
  struct stat info{};
  if (fstat(fd, &info) != 0) bad(what + ": " + errno_text(errno));
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    bad(what + ": it belongs to user " + std::to_string(info.st_uid) + " (expected " + std::to_string(geteuid()) + ", or root)",
        "a pack is code: copy it (`cp -r`) if you trust who made it, so that nobody else can change it");
  }
  if ((info.st_mode & S_IWOTH) != 0)
    bad(what + ": everybody may write to it", "a pack is code: `chmod -R o-w` the pack if nobody has changed it meanwhile");
}

// Reads a regular file below a folder; `name` has no separator. Links, pipes and devices are refused.
std::string read_file(int folder, const std::string& name, size_t max_bytes) {
  Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    bad("file " + ticked(name) + ": " + (errno == ELOOP ? "it is a symbolic link (packs hold files only)" : errno_text(errno)));
  struct stat info{};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) bad("file " + ticked(name) + ": it is no regular file");
  check_owner(file.get(), "file " + ticked(name));
  if (static_cast<uint64_t>(info.st_size) > max_bytes) {
    bad("file " + ticked(name) + ": " + std::to_string(info.st_size) + " bytes (expected at most " + std::to_string(max_bytes) + ")");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) bad("file " + ticked(name) + ": " + (n < 0 ? errno_text(errno) : "it ends early"));
    done += static_cast<size_t>(n);
  }
  return bytes;
}

// The first field of pack.json is the SHA-256 of the file's bytes, its own 64 digits set to 0: a flipped bit in a guard or a launch spec would serve
// a kernel where it was never judged. Against damage; against somebody who means harm, a signature of it (_trust.py).
// expected  the digest of the text that the caller has read and checked, or empty.
void check_digest(const std::string& text, std::string_view expected) {
  constexpr std::string_view kField = "\"digest\"";
  size_t at = 0;
  auto skip = [&](std::string_view word) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) ++at;
    bool there = text.compare(at, word.size(), word) == 0;
    at += word.size();
    return there;
  };
  if (!skip("{") || !skip(kField) || !skip(":") || !skip("\"") || at + 64 > text.size())
    bad("file `pack.json`: it does not begin with a digest", "the pack is damaged or of an early version; optimize again");
  std::string zeroed = text;
  zeroed.replace(at, 64, 64, '0');
  if (sha256_hex(zeroed) != std::string_view(text).substr(at, 64))
    bad("file `pack.json`: its digest is that of another text", "the pack is damaged or was edited; copy it again or optimize again");
  if (!expected.empty() && std::string_view(text).substr(at, 64) != expected)
    bad("file `pack.json`: it is not the one that was read a moment ago", "somebody writes this pack right now; apply it again");
}

// A file that is named by its content.
std::string read_hashed(int pack, const char* folder, const FileRef& ref, const char* suffix) {
  Descriptor below(openat(pack, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (below.get() < 0) bad(std::string("folder `") + folder + "`: " + errno_text(errno));
  check_owner(below.get(), std::string("folder `") + folder + "`");
  std::string name = ref.sha256 + suffix;
  std::string bytes = read_file(below.get(), name, static_cast<size_t>(ref.bytes));
  if (bytes.size() != static_cast<size_t>(ref.bytes) || sha256_hex(bytes) != ref.sha256) {
    bad(std::string("file `") + folder + "/" + name + "`: its content is not what pack.json recorded",
        "the pack is damaged or was changed; copy it again or optimize again");
  }
  return bytes;
}

bool same_pin(const json::Value& a, const json::Value& b) { return a.kind == b.kind && a.integer == b.integer && a.string == b.string; }

std::string shown(const json::Value& v) { return v.kind == json::Value::kString ? ticked(v.string) : std::to_string(v.integer); }

const json::Value& read_pin(const json::Node& node) {
  if (node.value().kind != json::Value::kString && node.value().kind != json::Value::kInt) node.wrong("a string or an integer");
  if (node.value().kind == json::Value::kString) node.string(512);
  return node.value();
}

// Returns the pin `threads`, 0 if there is none.
int64_t compare_pins(const json::Node& judged, const json::Value* here) {
  json::Fields fields(judged);
  if (judged.value().fields.size() > kPinsMax) judged.wrong("at most " + std::to_string(kPinsMax) + " pins");
  int64_t threads = 0;
  for (const auto& [name, unused] : judged.value().fields) {
    json::Node node = fields.need(name);
    const json::Value& pin = read_pin(node);
    if (name == "threads") threads = node.integer(1, INT32_MAX);
    if (here == nullptr) continue;
    const json::Value* mine = nullptr;
    for (const auto& [other, value] : here->fields) {
      if (other == name) mine = &value;
    }
    if (mine != nullptr && same_pin(pin, *mine)) continue;
    throw Error(
        KFR_BAD_PIN,
        "pin " + ticked(name) + " is " + shown(pin) + " in the pack (this process has " + (mine == nullptr ? "none" : shown(*mine)) + ")",
        "`kernelforge verify` judges the pack again here; until then eager runs");
  }
  return threads;
}

// The digest that the caller has read in pack.json before, given among the pins of this process; or "".
std::string read_digest(std::string_view pins) {
  json::Value here = json::parse(pins, size_t{1} << 16, KFR_BAD_ARGUMENT, "read the pins of this process");
  for (const auto& [name, value] : here.fields) {
    if (name == "digest") return value.string;
  }
  return "";
}

PackPlan read_plan(const json::Node& node, int64_t threads) {
  json::Fields fields(node);
  PackPlan plan;
  plan.id = read_id(fields.need("id"));
  plan.approved = fields.need("state").one_of({"proposed", "approved"}) == "approved";
  plan.code = read_file_ref(fields.need("code"), static_cast<int64_t>(kImageBytesMax));
  plan.source = read_file_ref(fields.need("source"), kSourceBytesMax);
  for (const char* name : {"card", "variant", "node", "evidence"}) fields.need(name);
  if (auto own = fields.find("threads"); own && threads != 0 && own->integer(0, INT64_MAX) != threads)
    own->wrong("the pin `threads`, " + std::to_string(threads));
  plan.json = node.value();
  return plan;
}

}  // namespace

std::vector<PackPlan> read_pack(std::string_view text, const std::string_view* pins, int32_t device) {
  const Target& target = target_of(device);
  json::Value here;
  if (pins != nullptr) {
    here = json::parse(*pins, size_t{1} << 16, KFR_BAD_ARGUMENT, "read the pins of this process");
    json::Node node(here, "pins", KFR_BAD_ARGUMENT);
    json::Fields fields(node);
    for (const auto& [name, unused] : here.fields) read_pin(fields.need(name));
  }
  json::Value root = json::parse(text, kPackBytesMax, KFR_BAD_PACK, "read pack.json");
  json::Fields fields(json::Node(root, "pack", KFR_BAD_PACK));
  fields.need("digest").string(64);
  fields.need("schema").integer(1, 1);
  fields.need("made").string(64);
  if (auto study = fields.find("study")) read_id(*study);
  fields.need("target").one_of({target.name()});
  int64_t threads = compare_pins(fields.need("pins"), pins == nullptr ? nullptr : &here);
  if (threads == 0 && device == KFR_HOST) fields.node().fail("missing pin `threads`");
  std::vector<PackPlan> plans;
  std::set<std::string> ids;
  for (const json::Node& node : fields.need("plans").array(kPlansMax)) {
    plans.push_back(read_plan(node, threads));
    if (!ids.insert(plans.back().id).second) node.fail("a second plan with the id " + ticked(plans.back().id));
  }
  fields.close();
  return plans;
}

std::unique_ptr<kfr_pack> open_pack(const std::string& folder, const std::string_view* pins, int32_t device) {
  auto pack = std::make_unique<kfr_pack>();
  std::string where = "load pack " + ticked(folder);
  try {
    Descriptor root(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.get() < 0) bad(errno_text(errno) + " (expected a folder with pack.json)");
    check_owner(root.get(), "this folder");
    std::string text = read_file(root.get(), "pack.json", kPackBytesMax);
    std::vector<PackPlan> plans = read_pack(text, pins, device);  // first: what is no pack at all is told in better words
    check_digest(text, pins == nullptr ? "" : read_digest(*pins));
    for (const PackPlan& plan : plans) {
      where = "load pack " + ticked(folder) + ": plan " + ticked(plan.id);
      std::string image = read_hashed(root.get(), "code", plan.code, device == KFR_HOST ? ".so" : ".cubin");
      read_hashed(root.get(), "source", plan.source, device == KFR_HOST ? ".cc" : ".cu");
      if (!plan.approved) continue;
      pack->plans.push_back(make_plan(json::Node(plan.json, "plan", KFR_BAD_SPEC), image, device).release());
    }
  } catch (const Error& e) { throw e.within(where); }
  return pack;
}

}  // namespace kf

kfr_pack::~kfr_pack() {
  for (kfr_plan* plan : plans) {
    if (!plan->published.load(std::memory_order_relaxed)) delete plan;
  }
}
