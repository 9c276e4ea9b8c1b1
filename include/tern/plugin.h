/* What every backend would write again: the text of the last error, checks of what the host hands over, plans' copies
 * of descs, and the choice among kernels. No numerics. Header-only, for gcc and clang in C11 and C++20; it needs
 * tern/accel.h, the C library, and in C++ the standard library. Using it is optional: the interface is tern/accel.h
 * alone, and docs/backend-spec.md its contract.
 *
 *   plugin/error.h      why a call failed; texts; structs that begin with their size; handles; memory in use
 *   plugin/options.h    the options and the profile that device_open is given
 *   plugin/desc.h       whether a desc keeps its op's contract; how far a tensor reaches; walking one
 *   plugin/plan.h       a plan's copy of its desc, and whether tensors are bound as it was planned
 *   plugin/graph.h      what a graph says, as bytes: whether two of them are equal
 *   plugin/host_args.h  a launch's counts and lengths, checked and copied
 *   plugin/kernels.h    lists of kernels: which takes a desc, and what its choice is called
 *   plugin/profile.h    ranges of each thread; C++: the recording of what ran
 *   plugin/guarded.h    C++: exceptions become a status at the border; owners of the copies above
 *
 * A function that can fail gives a tern_status, and where that isn't TERN_OK, the calling thread's last error says why
 * in plain words. Every function may be called from any thread at any time; what it's handed must not change meanwhile.
 */
#ifndef TERN_PLUGIN_H
#define TERN_PLUGIN_H

#include "tern/plugin/desc.h"
#include "tern/plugin/error.h"
#include "tern/plugin/graph.h"
#include "tern/plugin/host_args.h"
#include "tern/plugin/kernels.h"
#include "tern/plugin/options.h"
#include "tern/plugin/plan.h"
#include "tern/plugin/profile.h"
#ifdef __cplusplus
#include "tern/plugin/guarded.h"
#endif

#endif
