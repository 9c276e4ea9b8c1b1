// Functions for more than the base instruction set, which run only where probing found it (target.h): those between
// TERN_TARGET_BEGIN("avx2,fma") and TERN_TARGET_END. What a file includes before is compiled for the base, so that no
// inline function of the C++ library takes instructions that the machine may lack.
#pragma once

#define TERN_INLINE static inline __attribute__((always_inline))  // of a struct's functions

#define TERN_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define TERN_TARGET_BEGIN(features) \
  TERN_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define TERN_TARGET_END TERN_PRAGMA(clang attribute pop)
#else
#define TERN_TARGET_BEGIN(features) TERN_PRAGMA(GCC push_options) TERN_PRAGMA(GCC target(features))
#define TERN_TARGET_END TERN_PRAGMA(GCC pop_options)
#endif
