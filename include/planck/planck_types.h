/* The types of Planck's C ABI: plain enumerations and structs. planck/planck.h has the functions.
 *
 * The meaning of every field is that of the C++ struct of the same name (planck/quantize.hpp, planck/dynamic_range.hpp,
 * planck/scan.hpp, planck/elementwise.hpp).
 */
#ifndef PLANCK_PLANCK_TYPES_H
#define PLANCK_PLANCK_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum planck_status {
  PLANCK_OK = 0,
  PLANCK_MISALIGNED_OPERAND = 1,
  PLANCK_INVALID_PROBLEM = 2,
  PLANCK_UNSUPPORTED = 3,
  PLANCK_WORKSPACE_TOO_SMALL = 4,
  PLANCK_BACKEND_FAILURE = 5,
  PLANCK_BUFFER_TOO_SMALL = 6
} planck_status;

typedef enum planck_element {
  PLANCK_F16 = 0,
  PLANCK_BF16 = 1,
  PLANCK_F32 = 2,
  PLANCK_F64 = 3,
  PLANCK_S8 = 4,
  PLANCK_U8 = 5,
  PLANCK_S32 = 6,
  PLANCK_S64 = 7,
  PLANCK_F8E4M3 = 8,
  PLANCK_F8E5M2 = 9
} planck_element;

typedef enum planck_scale_form { PLANCK_DIVIDE = 0, PLANCK_RECIPROCAL = 1 } planck_scale_form;
typedef enum planck_binary_kind { PLANCK_LERP = 31, PLANCK_ADD_SCALED = 1000 } planck_binary_kind;
typedef enum planck_scan_kind {
  PLANCK_CUMSUM = 0,
  PLANCK_CUMPROD = 1,
  PLANCK_CUMMAX = 2,
  PLANCK_CUMMIN = 3,
  PLANCK_LOG_CUMSUM_EXP = 4
} planck_scan_kind;
typedef enum planck_scan_ties { PLANCK_TIES_FIRST = 0, PLANCK_TIES_LAST = 1 } planck_scan_ties;
typedef enum planck_device { PLANCK_CPU = 0, PLANCK_CUDA = 1 } planck_device;

/* The buffer's length is not known: the view's span is not checked. For DLPack, which does not say. */
#define PLANCK_UNKNOWN_CAPACITY INT64_MAX

/* A strided view. Element (i0, i1, ...) is data[offset + i0*strides[0] + i1*strides[1] + ...], counted in
 * elements. strides may be NULL: row-major. A DLTensor d of element size n converts in one line:
 *   planck_tensor t = {d.data, element, d.ndim, d.shape, d.strides, (int64_t)d.byte_offset / n,
 * PLANCK_UNKNOWN_CAPACITY};
 */
typedef struct planck_tensor {
  void* data;
  int32_t element; /* planck_element */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides;
  int64_t offset;
  int64_t capacity; /* the buffer's length in elements */
} planck_tensor;

typedef struct planck_shape {
  int32_t rank;
  const int64_t* extents;
} planck_shape;

/* Runs task(context, i) once for each i in [0, count) on at most max_threads threads, and returns when all are done. A
 * task that has started must be let run on: one that started later may sleep until it has done its part. */
typedef void (*planck_for_each)(void* executor, int64_t count, int32_t max_threads,
                                void (*task)(void* context, int64_t index), void* context);

/* Where work runs. A null planck_stream* is the CPU with the default executor. */
typedef struct planck_stream {
  int32_t device;           /* planck_device */
  int32_t max_threads;      /* 0: as many as the executor has */
  planck_for_each for_each; /* NULL: the default executor */
  void* executor;           /* passed to for_each */
  int32_t concurrency;      /* how many tasks for_each runs at once */
  void* native;             /* CUDA: the stream handle */
} planck_stream;

/* ---- the quantise family ---- */

typedef enum planck_granularity_kind {
  PLANCK_PER_TENSOR = 0,
  PLANCK_PER_CHANNEL = 1,
  PLANCK_PER_TOKEN = 2,
  PLANCK_PER_GROUP = 3
} planck_granularity_kind;

/* Which elements share a scale and zero point. All zero is one for the whole tensor. */
typedef struct planck_granularity {
  int32_t kind;       /* planck_granularity_kind */
  int32_t axis;       /* channel, group; negative counts from the end */
  int64_t group_size; /* group */
} planck_granularity;

typedef struct planck_quantize_descriptor {
  planck_shape shape;
  int64_t q_min;
  int64_t q_max;
  int32_t input_element;  /* the floats */
  int32_t output_element; /* the codes */
  planck_granularity scope;
  int32_t scale_form; /* planck_scale_form */
  int32_t trust_qparams;
  int32_t unsaturated; /* 1: `saturate` of C++ is false */
} planck_quantize_descriptor;

typedef planck_quantize_descriptor planck_quantize_backward_descriptor;

typedef struct planck_dequantize_descriptor {
  planck_shape shape;
  int32_t input_element;  /* the codes */
  int32_t output_element; /* the floats */
  planck_granularity scope;
  int32_t trust_qparams;
} planck_dequantize_descriptor;

typedef planck_dequantize_descriptor planck_dequantize_backward_descriptor;

typedef struct planck_fake_quantize_descriptor {
  planck_shape shape;
  int64_t q_min;
  int64_t q_max;
  int32_t input_element;
  planck_granularity scope;
  int32_t scale_form;
  int32_t trust_qparams;
  int32_t learnable; /* the backward pass may give d_scale and d_zero_point */
} planck_fake_quantize_descriptor;

typedef planck_fake_quantize_descriptor planck_fake_quantize_backward_descriptor;

/* A scale_tensor takes the place of the number scale, a zero_point_tensor (s32) that of zero_point; NULL: the number.
 * Scales hold the compute type (f64 for f64 tensors, f32 for all others) or the tensor's own element. */
typedef struct planck_quantize_args {
  const planck_tensor* input;
  double scale;
  int64_t zero_point;
  const planck_tensor* scale_tensor;
  const planck_tensor* zero_point_tensor;
  const planck_tensor* output;
} planck_quantize_args;

typedef struct planck_dequantize_args {
  const planck_tensor* input;
  double scale;
  int64_t zero_point;
  const planck_tensor* scale_tensor;
  const planck_tensor* zero_point_tensor;
  const planck_tensor* output;
} planck_dequantize_args;

typedef struct planck_fake_quantize_args {
  const planck_tensor* input;
  double scale;
  int64_t zero_point;
  const planck_tensor* scale_tensor;
  const planck_tensor* zero_point_tensor;
  const planck_tensor* output;
} planck_fake_quantize_args;

typedef struct planck_quantize_backward_args {
  const planck_tensor* input;
  double scale;
  int64_t zero_point;
  const planck_tensor* scale_tensor;
  const planck_tensor* zero_point_tensor;
  const planck_tensor* d_output;
  const planck_tensor* d_input;
} planck_quantize_backward_args;

typedef struct planck_dequantize_backward_args {
  double scale;
  const planck_tensor* scale_tensor;
  const planck_tensor* d_output;
  const planck_tensor* d_input;
} planck_dequantize_backward_args;

/* Gradients that are not wanted are NULL; d_scale and d_zero_point need a learnable descriptor. */
typedef struct planck_fake_quantize_backward_args {
  const planck_tensor* input;
  double scale;
  int64_t zero_point;
  const planck_tensor* scale_tensor;
  const planck_tensor* zero_point_tensor;
  const planck_tensor* d_output;
  const planck_tensor* d_input;
  const planck_tensor* d_scale;
  const planck_tensor* d_zero_point;
  double grad_factor; /* multiplies d_scale and d_zero_point; 1 changes nothing */
} planck_fake_quantize_backward_args;

typedef enum planck_dynamic_range_mode { PLANCK_SYMMETRIC = 0, PLANCK_ASYMMETRIC = 1 } planck_dynamic_range_mode;
typedef enum planck_nonfinite { PLANCK_SATURATE = 0, PLANCK_ERROR = 1 } planck_nonfinite;

typedef struct planck_dynamic_range_quantize_descriptor {
  planck_shape shape;
  int64_t q_min;
  int64_t q_max;
  int32_t mode; /* planck_dynamic_range_mode */
  planck_granularity scope;
  int32_t input_element;
  int32_t output_element;
  int32_t zero_in_range; /* asymmetric: 1 widens the range to contain 0, what C++ does by default */
  int32_t nonfinite;     /* planck_nonfinite */
  int32_t qparams_only;
} planck_dynamic_range_quantize_descriptor;

/* Outputs that are not wanted are NULL. */
typedef struct planck_dynamic_range_quantize_args {
  const planck_tensor* input;
  const planck_tensor* scale_out;
  const planck_tensor* output;         /* the codes */
  const planck_tensor* zero_point_out; /* s32 */
  const planck_tensor* row_sum;        /* s32 */
} planck_dynamic_range_quantize_args;

/* ---- scans ---- */

typedef struct planck_scan_descriptor {
  int32_t kind; /* planck_scan_kind */
  planck_shape input_shape;
  int32_t scan_axis; /* negative counts from the end */
  int32_t reverse;
  int32_t element;
  int32_t exclusive; /* cumsum, cumprod and logcumsumexp */
  int32_t ties;      /* planck_scan_ties: cummax and cummin */
  int64_t segments;  /* a ragged batch: how many segments the axis has, each scanned by itself; 0: none but the axis */
} planck_scan_descriptor;

/* An axis piece by piece: a carry is an s64 tensor of the input's shape with this extent along the axis. */
#define PLANCK_SCAN_CARRY_WORDS 37

/* y may be the same view as x, and carry_out as carry_in. */
typedef struct planck_scan_args {
  const planck_tensor* x;
  const planck_tensor* y;
  const planck_tensor* indices;   /* cummax and cummin: s32 or s64, which its element says; NULL: not wanted */
  const planck_tensor* carry_in;  /* the carry_out of the piece before; NULL: the first piece */
  const planck_tensor* carry_out; /* for the next piece; this one's length is then a multiple of 4096 */
  /* [segments + 1], s32 or s64, which its element says: segment i has the elements offsets[i] ... offsets[i + 1] - 1 of
   * every row along the axis. They rise from 0 to the axis' length. Not with carries. NULL: no segments */
  const planck_tensor* offsets;
} planck_scan_args;

typedef planck_scan_descriptor planck_scan_backward_descriptor;

/* dx may be the same view as dy, x or y. Tensors that are not needed are NULL, or given and not read. */
typedef struct planck_scan_backward_args {
  const planck_tensor* dy;
  const planck_tensor* dx;
  const planck_tensor* x;       /* for cumprod and logcumsumexp, and for cummax and cummin without indices */
  const planck_tensor* y;       /* for logcumsumexp of f32 and f64 */
  const planck_tensor* indices; /* cummax and cummin: those of the forward run; NULL: found again from x */
  const planck_tensor* offsets; /* as forward */
} planck_scan_backward_args;

typedef struct planck_linear_recurrence_descriptor {
  planck_shape input_shape;
  int32_t scan_axis; /* negative counts from the end */
  int32_t reverse;
  int32_t element;
  int64_t segments; /* as for scans */
} planck_linear_recurrence_descriptor;

/* h may be the same view as a or b, and carry_out as carry_in. */
typedef struct planck_linear_recurrence_args {
  const planck_tensor* a;
  const planck_tensor* b;
  const planck_tensor* initial; /* h[-1], with extent 1 along the axis, or segments if it has any; NULL: 0 */
  const planck_tensor* h;
  const planck_tensor* carry_in;  /* as for scans; not with an initial state, which is the first piece's */
  const planck_tensor* carry_out; /* as for scans */
  const planck_tensor* offsets;   /* as for scans */
} planck_linear_recurrence_args;

typedef planck_linear_recurrence_descriptor planck_linear_recurrence_backward_descriptor;

/* Gradients that are not wanted are NULL, but not all of them; da and db may be the same view as dh, a or h. */
typedef struct planck_linear_recurrence_backward_args {
  const planck_tensor* dh;
  const planck_tensor* a;
  const planck_tensor* h;       /* for da */
  const planck_tensor* initial; /* for da: the forward run's h[-1]; NULL: 0 */
  const planck_tensor* da;
  const planck_tensor* db;
  const planck_tensor* d_initial; /* of the shape of initial; beside da only with initial */
  const planck_tensor* offsets;   /* as for scans */
} planck_linear_recurrence_backward_args;

/* ---- parameterised binary operations ---- */

typedef struct planck_binary_param_descriptor {
  int32_t kind; /* planck_binary_kind */
  planck_shape shape;
  int32_t element;
  double param;
  const planck_shape* weight_shape; /* NULL: w is param */
  const planck_shape* a_shape;      /* NULL: shape */
  const planck_shape* b_shape;      /* NULL: shape */
} planck_binary_param_descriptor;

typedef struct planck_binary_param_args {
  const planck_tensor* a;
  const planck_tensor* b;
  const planck_tensor* weight; /* NULL without a weight_shape */
  const planck_tensor* y;
} planck_binary_param_args;

typedef planck_binary_param_descriptor planck_binary_param_backward_descriptor;

/* Tensors that are not needed or not wanted are NULL. */
typedef struct planck_binary_param_backward_args {
  const planck_tensor* dy;
  const planck_tensor* a;
  const planck_tensor* b;
  const planck_tensor* weight;
  const planck_tensor* da;
  const planck_tensor* db;
  const planck_tensor* d_weight;
} planck_binary_param_backward_args;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PLANCK_PLANCK_TYPES_H */
