/* app/validate_recipe.c - what a measured run captured in CUDA graphs, and what it overlapped.
 *
 * The rows have no column for it; recipes give Megatron-LM's words in the notes:
 * "cuda_graph_impl=transformer_engine; cuda_graph_scope=attn+moe_router; moe_a2a_overlap=True". Whole
 * iterations are either the impl or, in older releases, the scope. torchtitan's word is "async TP"
 * (enable_async_tensor_parallel). A row that says nothing captured nothing, and overlapped what its
 * framework overlaps unasked.
 */
#include "app/validate-private.h"

#include <string.h>

/* The word behind @key in @notes, or "". */
static void
find_word (const char *notes, const char *key, char word[32])
{
  const char *at = strstr (notes, key);

  word[0] = '\0';
  if (at == NULL)
    return;
  at += strlen (key);
  g_strlcpy (word, at, MIN (strspn (at, "abcdefghijklmnopqrstuvwxyz_"), 31) + 1);
}

void
validate_read_recipe (ValidateCase *c)
{
  const char *notes = validate_cell (&c->cells, "notes");
  char impl[32], scope[32];

  find_word (notes, "cuda_graph_impl=", impl);
  find_word (notes, "cuda_graph_scope=", scope);
  if (g_str_equal (impl, "full_iteration") || g_str_equal (scope, "full_iteration"))
    c->layout.cuda_graph = MODEL_GRAPH_FULL_ITERATION;
  else if (g_str_equal (impl, "local") || g_str_equal (impl, "transformer_engine")
           || (*impl == '\0' && *scope != '\0'))
    c->layout.cuda_graph = MODEL_GRAPH_LAYER;
  c->layout.overlap_ep
      = c->layout.ep > 1
        && (strstr (notes, "moe_a2a_overlap=True") != NULL || strstr (notes, "EP overlap") != NULL);
  c->layout.overlap_tp |= c->layout.tp > 1 && strstr (notes, "async TP") != NULL;
}
