/* A test framework for plain C in one page: conditions are counted, never fatal, and main prints the sum.
 *
 * CHECK_STATUS calls planck, compares the status, and for a failure also looks for words in the thread's last
 * error message: the plan, the argument and the values, as docs/errors.md promises.
 */
#ifndef PLANCK_TESTS_C_API_CHECK_H
#define PLANCK_TESTS_C_API_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "planck/planck.h"

void check(int ok, const char* file, int line, const char* text);
/* `words` is a comma-separated list; each must occur in planck_last_error_message(). */
void check_status(planck_status expected, planck_status got, const char* words, const char* file, int line,
                  const char* text);
/* Bit for bit, so that -0 differs from +0. */
void check_bytes(const void* expected, const void* got, size_t bytes, const char* file, int line, const char* text);

#define CHECK(condition) check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
#define CHECK_OK(call) check_status(PLANCK_OK, (call), "", __FILE__, __LINE__, #call)
#define CHECK_STATUS(status, words, call) check_status((status), (call), (words), __FILE__, __LINE__, #call)
#define CHECK_ARRAY(expected, got) \
  check_bytes((expected), (got), sizeof(expected), __FILE__, __LINE__, #got " == " #expected)

/* A row-major view without strides over a buffer of `capacity` elements. */
planck_tensor packed(void* data, int32_t element, int32_t rank, const int64_t* shape, int64_t capacity);
planck_shape shape_of(int32_t rank, const int64_t* extents);

void test_quantize(void);
void test_granularities(void);
void test_scans(void);
void test_binary_param(void);
void test_streams(void);
void test_errors(void);
void test_null_pointers(void);

#endif
