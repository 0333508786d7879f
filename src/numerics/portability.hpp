// The two words that let one text of math be host code, Highway lanes and CUDA device code.
#pragma once

#if defined(__CUDACC__)
#define PLANCK_HOST_DEVICE __host__ __device__
#else
#define PLANCK_HOST_DEVICE
#endif

// In front of every function of the math files (.inl). Always inlined: the functions are re-included inside each
// Highway target's namespace, and a call that stays a call would cross instruction sets.
#define PLANCK_MATH PLANCK_HOST_DEVICE __attribute__((always_inline)) inline
