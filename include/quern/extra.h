/* Quern: the operators of libquern-extra.
 *
 * The library registers kinds of nodes (kind.h) that convolution networks seldom need: recurrent layers, detection,
 * arithmetic on integers, operators that move elements. Models that contain any cannot be loaded without them. The
 * shared library registers them when it is loaded, and dlclose() does not unload it. Programs that link it statically
 * call qn_extra_register(). */
#ifndef QUERN_EXTRA_H
#define QUERN_EXTRA_H

#include "kind.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup extra The operators of libquern-extra
 *
 *  libquern-extra is a library of its own: link it in addition to libquern.
 *  @{ */

/** Registers the kinds, unless that has been done before. Call it before models are loaded. Not thread-safe. */
QN_API qn_status qn_extra_register(void);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
