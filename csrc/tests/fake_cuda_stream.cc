// fake_cuda_stream.cc: streams that capture, graphs that replay, events that read the clock.
#include "fake_cuda_state.h"

namespace fake {
namespace {

int streams = 0, execs = 0;

}  // namespace

void run(const Node& node) {
  State& s = state();
  s.note("run " + node.text);
  if (node.work) node.work();
  s.clock_ns += node.ns;
}

Result submit(Stream stream, Node node) {
  if (stream != nullptr && stream->capturing) {
    stream->nodes.push_back(std::move(node));
    return 0;
  }
  run(node);
  return 0;
}

KF_FAKE Result cuStreamCreate(Stream* stream, uint32_t flags) {
  Call call("cuStreamCreate", kStarted | kContext, std::to_string(flags));
  if (call.refused != 0) return call.refused;
  *stream = new StreamTag;
  (*stream)->number = ++streams;
  ++state().alive["stream"];
  return 0;
}
KF_FAKE Result cuStreamSynchronize(Stream stream) {
  Call call("cuStreamSynchronize", kStarted | kContext | kUnsafe, std::to_string(stream == nullptr ? 0 : stream->number));
  if (call.refused == 0 && stream != nullptr && stream->capturing) return kCaptureUnsupported;
  return call.refused;
}
KF_FAKE Result cuStreamBeginCapture_v2(Stream stream, int32_t mode) {
  Call call("cuStreamBeginCapture_v2", kStarted | kContext, std::to_string(mode));
  if (call.refused != 0) return call.refused;
  if (stream == nullptr || stream->capturing) return kCaptureUnsupported;
  stream->capturing = true;
  stream->nodes.clear();
  return 0;
}
KF_FAKE Result cuStreamEndCapture(Stream stream, Graph* graph) {
  Call call("cuStreamEndCapture", kStarted | kContext);
  if (stream == nullptr || !stream->capturing) return kCaptureUnsupported;
  stream->capturing = false;
  if (call.refused != 0) return call.refused;
  *graph = new GraphTag{std::move(stream->nodes)};
  ++state().alive["graph"];
  return 0;
}
KF_FAKE Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, uint64_t flags) {
  Call call("cuGraphInstantiateWithFlags", kStarted | kContext, std::to_string(graph->nodes.size()) + " nodes");
  if (call.refused != 0 || flags != 0) return call.refused != 0 ? call.refused : kInvalidValue;
  *exec = new GraphExecTag{++execs, graph->nodes};
  ++state().alive["exec"];
  return 0;
}
KF_FAKE Result cuGraphUpload(GraphExec exec, Stream) {
  return Call("cuGraphUpload", kStarted | kContext, std::to_string(exec->number)).refused;
}
KF_FAKE Result cuGraphLaunch(GraphExec exec, Stream stream) {
  Call call("cuGraphLaunch", kStarted | kContext,
            std::to_string(exec->nodes.size()) + " nodes stream=" + std::to_string(stream == nullptr ? 0 : stream->number));
  if (call.refused != 0) return call.refused;
  for (const Node& node : exec->nodes) run(node);
  return 0;
}
KF_FAKE Result cuGraphExecDestroy(GraphExec exec) {
  Call call("cuGraphExecDestroy", kStarted);
  delete exec;
  --state().alive["exec"];
  return call.refused;
}
KF_FAKE Result cuGraphDestroy(Graph graph) {
  Call call("cuGraphDestroy", kStarted);
  delete graph;
  --state().alive["graph"];
  return call.refused;
}
KF_FAKE Result cuEventCreate(Event* event, uint32_t flags) {
  Call call("cuEventCreate", kStarted | kContext, std::to_string(flags));
  if (call.refused != 0) return call.refused;
  *event = new EventTag;
  ++state().alive["event"];
  return 0;
}
KF_FAKE Result cuEventRecord(Event event, Stream stream) {
  Call call("cuEventRecord", kStarted | kContext, "stream=" + std::to_string(stream == nullptr ? 0 : stream->number));
  if (call.refused == 0) event->at_ns = state().clock_ns;
  return call.refused;
}
KF_FAKE Result cuEventSynchronize(Event event) {
  Call call("cuEventSynchronize", kStarted | kContext | kUnsafe);
  return call.refused != 0 ? call.refused : event->at_ns < 0 ? kInvalidHandle : 0;
}
KF_FAKE Result cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  Call call("cuEventElapsedTime", kStarted | kContext);
  if (call.refused != 0) return call.refused;
  if (start->at_ns < 0 || end->at_ns < 0) return kInvalidHandle;
  *milliseconds = static_cast<float>(static_cast<double>(end->at_ns - start->at_ns) / 1e6);
  return 0;
}

}  // namespace fake
