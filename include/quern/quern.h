/* Quern: neural-network operator kernels for CPUs, and a small model runner.  C11 and C++.
 *
 * Every function returns a qn_status unless its description says otherwise. If a function fails, it has created
 * nothing, and qn_last_message() says what was wrong. Objects never change once they are created, and several threads
 * may use them at once, unless their description says otherwise. */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include "base.h"
#include "graph.h"
#include "kind.h"
#include "op.h"

#endif
