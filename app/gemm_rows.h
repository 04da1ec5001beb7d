/* app/gemm_rows.h - measured times of single kernels: matrix products and attention, on their GPUs.
 *
 * A file or folder of *.csv (in name order), in one of two forms:
 *   m, n, k, time_s        C[m,n] = A[m,k]·B[k,n] timed over and over, alone on the GPU. gpu and
 *                          dtype are columns, or the file is called GPU-DTYPE[-anything].csv; batch
 *                          is an optional column (1).
 *   gpu, op, shape, peak_tflops, efficiency
 *                          op matmul: "b=, m=, n=, k=, accumulate=, out_dtype="; group_matmul:
 *                          "ng=, M=, N=, K=, stage=", of the forward product; sdp_fwd, sdp_bwd:
 *                          "batch=, seq_len=, head_num=, kv_head_num=, qk_head_dim=, v_head_dim=",
 *                          causal. Efficiency is FLOPs / (time · peak); of attention those of the
 *                          whole square, backward 2.5 times as many.
 */
#pragma once
#include "app/error.h"
#include "base/csv.h"
#include "costmodel/opcost.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  APP_KERNEL_MATMUL,
  APP_KERNEL_GROUPED_MATMUL,
  APP_KERNEL_ATTENTION,
  APP_KERNEL_ATTENTION_BACKWARD,
  APP_KERNEL_N_KINDS
} AppKernelKind;

/* Numbers of one GPU. */
typedef struct {
  TopoMachine *machine; /* (owned) the GPU's board */
  CostNumbers numbers;  /* as the calibration has them, but step = 1: kernels alone */
  CostContext context;
} GemmSetting;

typedef struct {
  guint setting;
  AppKernelKind kind;
  ModelDtype dtype;
  guint64 m, n, k; /* of a product */
  guint32 batch;
  gboolean accumulate;           /* into fp32 */
  gboolean repeated;             /* L2 keeps a part from one run to the next */
  ModelAttentionShape attention; /* of attention */
  double measured_s;
} GemmRow;

typedef struct {
  BaseCatalog *catalog;         /* (owned) */
  CostCalibration *calibration; /* (owned) */
  TopoGpuTable *gpus;           /* (owned) */
  GHashTable *setting_keys;     /* (owned) GPU slug -> index + 1 */
  GPtrArray *settings;          /* (owned) GemmSetting * */
  GArray *rows;                 /* (owned) GemmRow */
  GHashTable *skipped;          /* (owned) reason -> count */
  guint n_rows;
} GemmRows;

/* @paths: NULL-terminated files and folders. */
gboolean gemm_rows_init (GemmRows *rows, const char *catalog_dir, const char *calibration,
                         const char *const *paths, GError **error);
void gemm_rows_clear (GemmRows *rows);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GemmRows, gemm_rows_clear)
/* Index of the setting of a GPU the calibration may know. FALSE: no such GPU. */
gboolean gemm_rows_setting (GemmRows *rows, const char *gpu, guint *out, GError **error);
/* Makes the contexts follow the numbers of their settings. */
void gemm_setting_refresh (GemmSetting *setting);
/* Seconds that row @i takes by the numbers its setting has now. */
double gemm_rows_predict (const GemmRows *rows, guint i);
/* FLOPs of a product or an attention kernel over 2: m·n·k and its like. */
double gemm_row_size (const GemmRow *row);
/* Reads "key=value, key=value" of the second form into @row; FALSE names what is wrong with it.
 * @efficiency, @peak_flop_per_s: of the same line. */
gboolean gemm_row_parse_shape (GemmRow *row, const char *op, const char *shape, double efficiency,
                               double peak_flop_per_s, GError **error);
G_END_DECLS
