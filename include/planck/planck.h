/* Planck's C ABI: one function per operation, plain structs, no state and no allocation.
 *
 * Every operation X has planck_X_run, planck_X_can_implement and planck_X_workspace_size. All return 0 or a
 * planck_status; the text of this thread's last error is planck_last_error_message().
 */
#ifndef PLANCK_PLANCK_H
#define PLANCK_PLANCK_H

#include "planck/planck_types.h"

/* Every function gives something that a caller must look at. */
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
#define PLANCK_C_API [[nodiscard]] __attribute__((visibility("default")))
#else
#define PLANCK_C_API __attribute__((warn_unused_result, visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The library that the program runs with, as "major.minor.patch". */
PLANCK_C_API const char* planck_version(void);

/* This thread's last error: its text, "" before any; the backend's code for PLANCK_BACKEND_FAILURE; what was needed and
 * what was there for PLANCK_WORKSPACE_TOO_SMALL (bytes) and PLANCK_BUFFER_TOO_SMALL (elements). 0 for other errors. */
PLANCK_C_API const char* planck_last_error_message(void);
PLANCK_C_API int32_t planck_last_backend_code(void);
PLANCK_C_API int64_t planck_last_needed(void);
PLANCK_C_API int64_t planck_last_got(void);

PLANCK_C_API planck_status planck_quantize_run(const planck_quantize_descriptor* descriptor,
                                               const planck_quantize_args* args, void* workspace,
                                               size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_quantize_can_implement(const planck_quantize_descriptor* descriptor,
                                                         const planck_quantize_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_quantize_workspace_size(const planck_quantize_descriptor* descriptor,
                                                          planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_quantize_backward_run(const planck_quantize_backward_descriptor* descriptor,
                                                        const planck_quantize_backward_args* args, void* workspace,
                                                        size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_quantize_backward_can_implement(const planck_quantize_backward_descriptor* descriptor,
                                                                  const planck_quantize_backward_args* args,
                                                                  planck_stream* stream);
PLANCK_C_API planck_status planck_quantize_backward_workspace_size(
    const planck_quantize_backward_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_dequantize_run(const planck_dequantize_descriptor* descriptor,
                                                 const planck_dequantize_args* args, void* workspace,
                                                 size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_dequantize_can_implement(const planck_dequantize_descriptor* descriptor,
                                                           const planck_dequantize_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_dequantize_workspace_size(const planck_dequantize_descriptor* descriptor,
                                                            planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_dequantize_backward_run(const planck_dequantize_backward_descriptor* descriptor,
                                                          const planck_dequantize_backward_args* args, void* workspace,
                                                          size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status
planck_dequantize_backward_can_implement(const planck_dequantize_backward_descriptor* descriptor,
                                         const planck_dequantize_backward_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_dequantize_backward_workspace_size(
    const planck_dequantize_backward_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_fake_quantize_run(const planck_fake_quantize_descriptor* descriptor,
                                                    const planck_fake_quantize_args* args, void* workspace,
                                                    size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_fake_quantize_can_implement(const planck_fake_quantize_descriptor* descriptor,
                                                              const planck_fake_quantize_args* args,
                                                              planck_stream* stream);
PLANCK_C_API planck_status planck_fake_quantize_workspace_size(const planck_fake_quantize_descriptor* descriptor,
                                                               planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_fake_quantize_backward_run(const planck_fake_quantize_backward_descriptor* descriptor,
                                                             const planck_fake_quantize_backward_args* args,
                                                             void* workspace, size_t workspace_bytes,
                                                             planck_stream* stream);
PLANCK_C_API planck_status
planck_fake_quantize_backward_can_implement(const planck_fake_quantize_backward_descriptor* descriptor,
                                            const planck_fake_quantize_backward_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_fake_quantize_backward_workspace_size(
    const planck_fake_quantize_backward_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_dynamic_range_quantize_run(const planck_dynamic_range_quantize_descriptor* descriptor,
                                                             const planck_dynamic_range_quantize_args* args,
                                                             void* workspace, size_t workspace_bytes,
                                                             planck_stream* stream);
PLANCK_C_API planck_status
planck_dynamic_range_quantize_can_implement(const planck_dynamic_range_quantize_descriptor* descriptor,
                                            const planck_dynamic_range_quantize_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_dynamic_range_quantize_workspace_size(
    const planck_dynamic_range_quantize_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_scan_run(const planck_scan_descriptor* descriptor, const planck_scan_args* args,
                                           void* workspace, size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_scan_can_implement(const planck_scan_descriptor* descriptor,
                                                     const planck_scan_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_scan_workspace_size(const planck_scan_descriptor* descriptor, planck_stream* stream,
                                                      size_t* bytes);

PLANCK_C_API planck_status planck_scan_backward_run(const planck_scan_backward_descriptor* descriptor,
                                                    const planck_scan_backward_args* args, void* workspace,
                                                    size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_scan_backward_can_implement(const planck_scan_backward_descriptor* descriptor,
                                                              const planck_scan_backward_args* args,
                                                              planck_stream* stream);
PLANCK_C_API planck_status planck_scan_backward_workspace_size(const planck_scan_backward_descriptor* descriptor,
                                                               planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_linear_recurrence_run(const planck_linear_recurrence_descriptor* descriptor,
                                                        const planck_linear_recurrence_args* args, void* workspace,
                                                        size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_linear_recurrence_can_implement(const planck_linear_recurrence_descriptor* descriptor,
                                                                  const planck_linear_recurrence_args* args,
                                                                  planck_stream* stream);
PLANCK_C_API planck_status planck_linear_recurrence_workspace_size(
    const planck_linear_recurrence_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_linear_recurrence_backward_run(
    const planck_linear_recurrence_backward_descriptor* descriptor, const planck_linear_recurrence_backward_args* args,
    void* workspace, size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_linear_recurrence_backward_can_implement(
    const planck_linear_recurrence_backward_descriptor* descriptor, const planck_linear_recurrence_backward_args* args,
    planck_stream* stream);
PLANCK_C_API planck_status planck_linear_recurrence_backward_workspace_size(
    const planck_linear_recurrence_backward_descriptor* descriptor, planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_binary_param_run(const planck_binary_param_descriptor* descriptor,
                                                   const planck_binary_param_args* args, void* workspace,
                                                   size_t workspace_bytes, planck_stream* stream);
PLANCK_C_API planck_status planck_binary_param_can_implement(const planck_binary_param_descriptor* descriptor,
                                                             const planck_binary_param_args* args,
                                                             planck_stream* stream);
PLANCK_C_API planck_status planck_binary_param_workspace_size(const planck_binary_param_descriptor* descriptor,
                                                              planck_stream* stream, size_t* bytes);

PLANCK_C_API planck_status planck_binary_param_backward_run(const planck_binary_param_backward_descriptor* descriptor,
                                                            const planck_binary_param_backward_args* args,
                                                            void* workspace, size_t workspace_bytes,
                                                            planck_stream* stream);
PLANCK_C_API planck_status
planck_binary_param_backward_can_implement(const planck_binary_param_backward_descriptor* descriptor,
                                           const planck_binary_param_backward_args* args, planck_stream* stream);
PLANCK_C_API planck_status planck_binary_param_backward_workspace_size(
    const planck_binary_param_backward_descriptor* descriptor, planck_stream* stream, size_t* bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PLANCK_PLANCK_H */
