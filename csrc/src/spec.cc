// spec.cc: strict reading of a launch spec for one call and one image.
#include "spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "error.h"
#include "target.h"

namespace kf {
namespace {

bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return upper(c) || (c >= 'a' && c <= 'z'); }

// Constants were compiled in; here they only have to be what the compile command could have taken.
void read_constants(const json::Node& node) {
  json::Fields fields(node);
  if (node.value().fields.size() > kConstantsMax) node.wrong("at most " + std::to_string(kConstantsMax) + " constants");
  for (const auto& [name, value] : node.value().fields) {
    bool good = name.size() <= 64 && !name.empty() && upper(name[0]) &&
                std::all_of(name.begin(), name.end(), [](char c) { return upper(c) || digit(c) || c == '_'; });
    if (!good) node.fail("constant " + ticked(name) + " (expected a name of capitals, digits and _)");
    json::Node text = fields.need(name);
    const std::string& v = text.string(64);
    good = !v.empty() &&
           std::all_of(v.begin(), v.end(), [](char c) { return letter(c) || digit(c) || c == '_' || c == '.' || c == '+' || c == '-'; });
    if (!good) text.wrong("letters, digits and _ . + -");
  }
}

double read_literal(const json::Node& node) {
  const std::string& text = node.string(64);
  const char* at = text.data();
  const char* end = at + text.size();
  bool negative = at < end && *at == '-';
  if (negative || (at < end && *at == '+')) ++at;
  bool hex = end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
  if (hex) at += 2;
  double v = 0;
  bool starts = at < end && (digit(*at) || *at == '.' || (hex && std::isxdigit(static_cast<unsigned char>(*at))));
  auto [stop, code] = std::from_chars(at, end, v, hex ? std::chars_format::hex : std::chars_format::general);
  if (!starts || code != std::errc() || stop != end) node.wrong("a finite decimal or hexadecimal number");
  return negative ? -v : v;
}

// Where a target's arguments are typed: an integer may become a float that holds it exactly, a float stays one.
void read_type(const json::Node& node, Arg* arg) {
  arg->type = node.one_of({"i32", "i64", "f32", "f64"});
  if (arg->type == "i64" && arg->kind == Arg::kInt) return;
  if (arg->type == "i32" && arg->kind == Arg::kInt) {
    if (arg->integer < INT32_MIN || arg->integer > INT32_MAX) node.fail(std::to_string(arg->integer) + " does not fit an i32");
    return;
  }
  if (arg->type[0] == 'i') node.wrong("`f32` or `f64` for a `float`");
  if (arg->kind == Arg::kInt) {
    constexpr int64_t kExact = int64_t{1} << 53, kExactSingle = int64_t{1} << 24;
    int64_t most = arg->type == "f32" ? kExactSingle : kExact;
    if (arg->integer < -most || arg->integer > most) node.fail(std::to_string(arg->integer) + " may not be exact as " + arg->type);
    arg->kind = Arg::kFloat;
    arg->real = static_cast<double>(arg->integer);
  }
  if (arg->type == "f32" && std::abs(arg->real) > std::numeric_limits<float>::max()) node.fail("the number does not fit an f32");
}

Arg read_arg(const json::Node& node, const Names& slots, const Names& names, const Code& code) {
  json::Fields fields(node);
  auto slot = fields.find("slot"), integer = fields.find("int"), real = fields.find("float");
  if (int{slot.has_value()} + int{integer.has_value()} + int{real.has_value()} != 1)
    node.fail("needs exactly one of `slot`, `int` and `float`");
  Arg arg;
  if (slot) {
    const std::string& name = slot->string(96);
    if (!slots.known(name)) slot->fail("no tensor or workspace is called " + ticked(name));
    arg.kind = Arg::kSlot;
    arg.slot = static_cast<uint32_t>(slots.value(name));
  } else if (integer) {
    arg.kind = Arg::kInt;
    arg.integer = read_expr(*integer, names, INT64_MIN, INT64_MAX);
  } else {
    arg.kind = Arg::kFloat;
    arg.real = read_literal(*real);
  }
  if (code.typed_args() && !slot) read_type(fields.need("type"), &arg);
  fields.close();
  return arg;
}

std::string read_entry(const json::Node& node) {
  const std::string& name = node.string(128);
  bool good =
      !name.empty() && !digit(name[0]) && std::all_of(name.begin(), name.end(), [](char c) { return letter(c) || digit(c) || c == '_'; });
  if (!good) node.wrong("the name of a function");
  return name;
}

Names slot_names(const Call& call, size_t workspaces) {
  Names slots;
  int64_t next = 0;
  for (const Tensor& t : call.inputs) slots.define(t.name, next++);
  for (const Tensor& t : call.outputs) {
    slots.define(t.name, t.alias >= 0 ? t.alias : next);
    ++next;
  }
  for (size_t i = 0; i < workspaces; ++i) slots.define("ws" + std::to_string(i), next++);
  return slots;
}

}  // namespace

int64_t read_expr(const json::Node& node, const Names& names, int64_t low, int64_t high) {
  const std::string& text = node.string(kExprBytesMax);
  int64_t v;
  try {
    v = evaluate(text, names);
  } catch (const Error& e) { throw e.within("field `" + node.path() + "`"); }
  if (v < low || v > high) {
    node.fail(ticked(text) + " is " + std::to_string(v) + " here (expected " + std::to_string(low) + " to " + std::to_string(high) + ")");
  }
  return v;
}

Spec read_spec(const json::Node& node, const Call& call, const Names& names, const Code& code) {
  json::Fields fields(node);
  fields.need("schema").integer(1, 1);
  read_constants(fields.need("constants"));
  Spec spec;
  spec.inputs = static_cast<uint32_t>(call.inputs.size());
  spec.outputs = static_cast<uint32_t>(call.outputs.size());
  for (const json::Node& item : fields.need("workspaces").array(kWorkspacesMax)) {
    json::Fields workspace(item);
    int64_t bytes = read_expr(workspace.need("bytes"), names, 1, kWorkspaceBytesMax);
    spec.workspaces.push_back({static_cast<uint64_t>(bytes), workspace.need("zeroed").boolean()});
    workspace.close();
  }
  Names slots = slot_names(call, spec.workspaces.size());
  json::Node kernels = fields.need("kernels");
  for (const json::Node& item : kernels.array(kKernelsMax)) {
    json::Fields source(item);
    Kernel kernel;
    kernel.entry = read_entry(source.need("entry"));
    Names own = names;
    kernel.geometry = code.read_geometry(kernel.entry, source, &own);
    for (const json::Node& arg : source.need("args").array(kKernelArgsMax)) kernel.args.push_back(read_arg(arg, slots, own, code));
    source.close();
    spec.kernels.push_back(std::move(kernel));
  }
  if (spec.kernels.empty()) kernels.wrong("at least one kernel");
  fields.close();
  return spec;
}

}  // namespace kf
