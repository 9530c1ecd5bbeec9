// Buffers of the caller's: where a session reads inputs and leaves outputs.
#pragma once

#include "graph/session/session.h"

namespace quern {

// Describes an input or output of a planned graph as the user sees it.
qn_tensor describe(const Graph& graph, const Port& port);

// Binds a buffer to an output or an input.
qn_status bind(qn_session* session, bool output, size_t index, Bound buffer);
// Fails if a bound buffer is too small for its input or output of `graph`, to which the session is being resized.
qn_status check_room(const qn_session& session, const Graph& graph);

// Finds the buffers that a run reads: the given ones, else the bound ones, else states.
qn_status take_inputs(qn_session& session, const void* const* inputs);
// Fails if a run would write where it must not.
qn_status check_outputs(qn_session& session);

}  // namespace quern
