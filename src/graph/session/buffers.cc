#include "graph/session/buffers.h"

#include "base/needs.h"
#include "base/status.h"
#include "base/tensor.h"

namespace quern {
namespace {

size_t port_bytes(const Graph& graph, const Port& port) {
  const qn_tensor tensor = describe(graph, port);
  return qn_tensor_bytes(&tensor);
}

// `what` and `index` name a buffer in messages.

// Computes no end addresses: a buffer may end at the end of the address space.
bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y ? y - x < a_bytes : x - y < b_bytes;
}

qn_status check_aligned(const void* data, qn_type type, const char* what, size_t index) {
  if (reinterpret_cast<uintptr_t>(data) % qn_type_size(type) == 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s %zu is not aligned to its elements", what, index);
}

// Fails if one of these buffers, except the one at index `but`, contains some of the bytes.
qn_status check_apart(const Vector<Bound>& bound, size_t but, const char* whose, const void* data, size_t bytes,
                      const char* what, size_t index) {
  for (size_t i = 0; i < bound.size(); ++i) {
    if (i == but || bound[i].data == nullptr || !overlap(data, bytes, bound[i].data, bound[i].bytes)) continue;
    return fail(QN_INVALID_ARGUMENT, "%s %zu overlaps the buffer bound to %s %zu", what, index, whose, i);
  }
  return QN_OK;
}

// Fails if the buffer contains bytes of the arena, because the run overwrites them.
qn_status check_outside(const Arena& arena, const void* data, size_t bytes, const char* what, size_t index) {
  if (!has_api("arena") || !overlap(data, bytes, arena.data(), arena.size())) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s %zu lies in the session's arena", what, index);
}

qn_status check_room(const Graph& graph, const Port& port, const Bound& bound, const char* what, size_t index) {
  const size_t needed = port_bytes(graph, port);
  if (bound.data == nullptr || bound.lent || bound.bytes >= needed) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s %zu takes %zu bytes, but its buffer has %zu", what, index, needed, bound.bytes);
}

}  // namespace

qn_tensor describe(const Graph& graph, const Port& port) {
  qn_tensor tensor = describe(graph.tensors[static_cast<size_t>(port.tensor)]);
  tensor.type = port.type;
  return tensor;
}

qn_status check_room(const qn_session& session, const Graph& graph) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    QN_TRY(check_room(graph, graph.inputs[i], session.bound_inputs[i], "qn_session_resize: input", i));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    QN_TRY(check_room(graph, graph.outputs[i], session.bound_outputs[i], "qn_session_resize: output", i));
  }
  return QN_OK;
}

qn_status bind(qn_session* session, bool output, size_t index, Bound buffer) {
  const char* const what = output ? "qn_session_bind_output: output" : "qn_session_bind_input: input";
  if (session == nullptr) return fail(QN_INVALID_ARGUMENT, "%s %zu: session is NULL", what, index);
  const Graph& graph = session->graph();
  const size_t count = output ? session->model->outputs.size() : graph.inputs.size();
  if (index >= count) return fail(QN_INVALID_ARGUMENT, "%s %zu of %zu", what, index, count);
  if (output && session->later_output(index) != no_tensor) {
    return fail(QN_UNSUPPORTED, "%s %zu: its size is known only after a run", what, index);
  }
  if (output) index = session->model->output_at[index];
  const Vector<Port>& ports = output ? graph.outputs : graph.inputs;
  if (buffer.data != nullptr) {
    QN_TRY(check_room(graph, ports[index], buffer, what, index));
    QN_TRY(check_aligned(buffer.data, ports[index].type, what, index));
    const size_t itself = output ? index : SIZE_MAX;
    QN_TRY(check_apart(session->bound_outputs, itself, "output", buffer.data, buffer.bytes, what, index));
    if (output) QN_TRY(check_apart(session->bound_inputs, SIZE_MAX, "input", buffer.data, buffer.bytes, what, index));
  }
  (output ? session->bound_outputs : session->bound_inputs)[index] = buffer;
#ifndef QN_SMALL  // has_subgraphs
  session->states.lend(session->bound_outputs);
#endif
  return QN_OK;
}

qn_status take_inputs(qn_session& session, const void* const* inputs) {
  const char* const what = "qn_session_run: input";
  const Graph& graph = session.graph();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const void* data = inputs == nullptr ? nullptr : inputs[i];
    if (has_api("bind") && data == nullptr) data = session.bound_inputs[i].data;
#ifndef QN_SMALL  // has_subgraphs
    if (data == nullptr) data = session.states.content(i);
#endif
    const size_t bytes = port_bytes(graph, graph.inputs[i]);
    if (bytes == 0) {  // no elements, so nobody reads it
      session.inputs()[i] = {};
      continue;
    }
    if (data == nullptr) return fail(QN_INVALID_ARGUMENT, "%s %zu is NULL", what, i);
    QN_TRY(check_aligned(data, graph.inputs[i].type, what, i));
    if (has_api("bind")) QN_TRY(check_apart(session.bound_outputs, SIZE_MAX, "output", data, bytes, what, i));
    QN_TRY(check_outside(session.arena(), data, bytes, what, i));
    session.inputs()[i] = {const_cast<void*>(data)};  // the run only reads it
  }
  return QN_OK;
}

qn_status check_outputs(qn_session& session) {
  for (size_t i = 0; has_api("bind") && i < session.bound_outputs.size(); ++i) {
    const Bound& output = session.bound_outputs[i];
    if (output.data == nullptr) continue;
    QN_TRY(check_outside(session.arena(), output.data, output.bytes, "qn_session_run: the buffer bound to output", i));
  }
  return QN_OK;
}

}  // namespace quern
