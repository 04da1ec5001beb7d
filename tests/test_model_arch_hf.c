/* config.json: family rules against published parameter counts, notes, and what is refused. */
#include "model/params.h"
#include "tests/model_arch_equal.h"

#define LLAMA                                                                                      \
  "{'model_type':'llama','hidden_size':64,'num_hidden_layers':2,"                                  \
  "'num_attention_heads':4,'intermediate_size':96,'vocab_size':100"

/* Published models by their dimensions; the totals are those of the checkpoints' indexes on
 * Hugging Face, unless a comment says otherwise. */
typedef struct {
  const char *name;
  const char *json;
  guint64 total;
} CountCase;

static const CountCase counts[] = {
  { "gpt2", "{'model_type':'gpt2','n_embd':768,'n_layer':12,'n_head':12,'vocab_size':50257}",
    124439808 },
  { "gpt2-xl",
    "{'model_type':'gpt2','n_embd':1600,'n_layer':48,'n_head':25,'n_positions':1024,'n_inner':null,"
    "'vocab_size':50257}",
    1557611200 },
  { "opt-125m",
    "{'model_type':'opt','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,"
    "'ffn_dim':3072,'vocab_size':50272,'max_position_embeddings':2048,'word_embed_proj_dim':768}",
    125239296 },
  { "opt-6.7b",
    "{'model_type':'opt','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,"
    "'ffn_dim':16384,'vocab_size':50272,'max_position_embeddings':2048}",
    6658473984 },
  { "bloom-560m",
    "{'model_type':'bloom','n_embed':1024,'n_layer':24,'num_attention_heads':16,"
    "'vocab_size':250880}",
    559214592 },
  { "bloom-7b1",
    "{'model_type':'bloom','hidden_size':4096,'n_layer':30,'n_head':32,'vocab_size':250880}",
    7069016064 },
  { "pythia-6.9b",
    "{'model_type':'gpt_neox','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,"
    "'intermediate_size':16384,'vocab_size':50432,'tie_word_embeddings':false}",
    6857302016 },
  /* 65024·4544 + 32·(4544·73·64 + 4544² + 8·4544² + 2·4544) + 2·4544 */
  { "falcon-7b",
    "{'model_type':'falcon','hidden_size':4544,'num_hidden_layers':32,'num_attention_heads':71,"
    "'vocab_size':65024,'multi_query':true,'parallel_attn':true,'bias':false,'alibi':false,"
    "'new_decoder_architecture':false}",
    6921720704 },
  { "falcon-7b, old names",
    "{'model_type':'RefinedWebModel','hidden_size':4544,'n_layer':32,'n_head':71,"
    "'vocab_size':65024,'multi_query':true,'parallel_attn':true,'bias':false,'alibi':false}",
    6921720704 },
  /* 65024·8192 + 60·(8192·144·64 + 8192² + 8·8192² + 4·8192) + 2·8192 */
  { "falcon-40b",
    "{'model_type':'falcon','hidden_size':8192,'num_hidden_layers':60,'num_attention_heads':128,"
    "'num_kv_heads':8,'vocab_size':65024,'multi_query':true,'parallel_attn':true,'bias':false,"
    "'new_decoder_architecture':true}",
    41303293952 },
  { "falcon-40b, old names",
    "{'model_type':'RefinedWeb','hidden_size':8192,'n_layer':60,'n_head':128,'n_head_kv':8,"
    "'vocab_size':65024,'parallel_attn':true,'bias':false,'alibi':false}",
    41303293952 },
  { "falcon-rw-1b",
    "{'model_type':'falcon','hidden_size':2048,'num_hidden_layers':24,'num_attention_heads':32,"
    "'vocab_size':50304,'multi_query':false,'parallel_attn':false,'bias':true,'alibi':true,"
    "'new_decoder_architecture':false}",
    1311625216 },
  { "phi-2",
    "{'model_type':'phi','hidden_size':2560,'num_hidden_layers':32,'num_attention_heads':32,"
    "'num_key_value_heads':null,'intermediate_size':10240,'vocab_size':51200,"
    "'partial_rotary_factor':0.4,'resid_pdrop':0.1}",
    2779683840 },
  { "phi-2, old names",
    "{'model_type':'phi-msft','n_embd':2560,'n_layer':32,'n_head':32,'n_head_kv':null,"
    "'n_inner':null,'rotary_dim':32,'vocab_size':51200,'tie_word_embeddings':false}",
    2779683840 },
  { "phi-3-mini",
    "{'model_type':'phi3','hidden_size':3072,'num_hidden_layers':32,'num_attention_heads':32,"
    "'num_key_value_heads':32,'intermediate_size':8192,'vocab_size':32064,'sliding_window':2047,"
    "'tie_word_embeddings':false}",
    3821079552 },
  { "gemma-7b",
    "{'model_type':'gemma','hidden_size':3072,'num_hidden_layers':28,'num_attention_heads':16,"
    "'num_key_value_heads':16,'head_dim':256,'intermediate_size':24576,'vocab_size':256000}",
    8537680896 },
  /* 262144·1152 + 26·(1152·6·256 + 1024·1152 + 2·256 + 3·1152·6912 + 4·1152) + 1152 */
  { "gemma-3-1b",
    "{'model_type':'gemma3_text','hidden_size':1152,'num_hidden_layers':26,"
    "'num_attention_heads':4,'num_key_value_heads':1,'head_dim':256,'intermediate_size':6912,"
    "'vocab_size':262144,'sliding_window':512,'sliding_window_pattern':6}",
    999885952 },
  { "mistral-nemo",
    "{'model_type':'mistral','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':32,"
    "'num_key_value_heads':8,'head_dim':128,'intermediate_size':14336,'vocab_size':131072,"
    "'sliding_window':null}",
    12247782400 },
  { "qwen2-0.5b",
    "{'model_type':'qwen2','hidden_size':896,'num_hidden_layers':24,'num_attention_heads':14,"
    "'num_key_value_heads':2,'intermediate_size':4864,'vocab_size':151936,"
    "'tie_word_embeddings':true}",
    494032768 },
  { "qwen3-8b",
    "{'model_type':'qwen3','hidden_size':4096,'num_hidden_layers':36,'num_attention_heads':32,"
    "'num_key_value_heads':8,'head_dim':128,'intermediate_size':12288,'vocab_size':151936,"
    "'tie_word_embeddings':false}",
    8190735360 },
  { "qwen1.5-moe-a2.7b",
    "{'model_type':'qwen2_moe','hidden_size':2048,'num_hidden_layers':24,'num_attention_heads':16,"
    "'num_key_value_heads':16,'intermediate_size':5632,'moe_intermediate_size':1408,"
    "'shared_expert_intermediate_size':5632,'num_experts':60,'num_experts_per_tok':4,"
    "'vocab_size':151936,'decoder_sparse_step':1}",
    14315784192 },
  /* OpenAI's model card: 116.83e9 and 20.91e9 */
  { "gpt-oss-120b",
    "{'model_type':'gpt_oss','hidden_size':2880,'num_hidden_layers':36,'num_attention_heads':64,"
    "'num_key_value_heads':8,'head_dim':64,'intermediate_size':2880,'num_local_experts':128,"
    "'num_experts_per_tok':4,'experts_per_token':4,'vocab_size':201088}",
    116829156672 },
  { "gpt-oss-20b",
    "{'model_type':'gpt_oss','hidden_size':2880,'num_hidden_layers':24,'num_attention_heads':64,"
    "'num_key_value_heads':8,'head_dim':64,'intermediate_size':2880,'num_local_experts':32,"
    "'num_experts_per_tok':4,'vocab_size':201088}",
    20914757184 },
  /* The language model alone; with the vision tower Scout has 108641793536 and Maverick
   * 401583781376: both 871932416 more. */
  { "llama-4-scout",
    "{'model_type':'llama4','tie_word_embeddings':false,'text_config':{'model_type':'llama4_text',"
    "'hidden_size':5120,'num_hidden_layers':48,'num_attention_heads':40,'num_key_value_heads':8,"
    "'head_dim':128,'intermediate_size':8192,'intermediate_size_mlp':16384,'vocab_size':202048,"
    "'num_local_experts':16,'num_experts_per_tok':1,'interleave_moe_layer_step':1}}",
    107769861120 },
  { "llama-4-maverick",
    "{'model_type':'llama4','text_config':{'model_type':'llama4_text',"
    "'hidden_size':5120,'num_hidden_layers':48,'num_attention_heads':40,'num_key_value_heads':8,"
    "'head_dim':128,'intermediate_size':8192,'intermediate_size_mlp':16384,'vocab_size':202048,"
    "'num_local_experts':128,'num_experts_per_tok':1,'interleave_moe_layer_step':2}}",
    400711848960 },
  { "deepseek-v3",
    "{'model_type':'deepseek_v3','hidden_size':7168,'num_hidden_layers':61,"
    "'num_attention_heads':128,'num_key_value_heads':128,'intermediate_size':18432,"
    "'moe_intermediate_size':2048,'n_routed_experts':256,'n_shared_experts':1,"
    "'num_experts_per_tok':8,'first_k_dense_replace':3,'moe_layer_freq':1,'q_lora_rank':1536,"
    "'kv_lora_rank':512,'qk_nope_head_dim':128,'qk_rope_head_dim':64,'v_head_dim':128,"
    "'vocab_size':129280,'num_nextn_predict_layers':1,'topk_method':'noaux_tc',"
    "'quantization_config':{'quant_method':'fp8'}}",
    671026419200 },
};

/* The cases write ' for " to stay readable. Returns: (owned) */
static char *
with_quotes (const char *json)
{
  char *text = g_strdup (json);
  return g_strdelimit (text, "'", '"');
}

static ModelArch *
read_config (const char *json, GError **error)
{
  g_autofree char *text = with_quotes (json);
  return model_arch_from_hf_json (text, -1, "config", error);
}

static void
test_count (void **state)
{
  const CountCase *c = *state;
  GError *error = NULL;
  g_autoptr (ModelArch) arch = read_config (c->json, &error);
  assert_no_error (error);
  assert_int_equal (model_params_total (arch), c->total);
  assert_round_trip (arch);
}

static gboolean
has_note (const ModelArch *arch, const char *start)
{
  for (guint i = 0; i < arch->assumed->len; i++)
    if (g_str_has_prefix (g_ptr_array_index (arch->assumed, i), start))
      return TRUE;
  return FALSE;
}

/* What took a default or is left out is said. */
static void
test_notes (void **state)
{
  static const struct {
    const char *json, *note;
    gboolean there;
  } cases[] = {
    { LLAMA "}", "tie_word_embeddings=no: ", TRUE },
    { LLAMA "}", "num_key_value_heads=4: ", TRUE },
    { LLAMA ",'tie_word_embeddings':false}", "tie_word_embeddings=", FALSE },
    { LLAMA ",'num_key_value_heads':2}", "num_key_value_heads=", FALSE },
    { LLAMA ",'quantization_config':{'quant_method':'fp8'}}", "quantization_config=fp8: ", TRUE },
    { LLAMA ",'quantization_config':{'quant_method':'a # b\\n'}}",
      "quantization_config=unknown: ", TRUE },
    { LLAMA ",'num_nextn_predict_layers':1}", "num_nextn_predict_layers=1: ", TRUE },
    { LLAMA ",'num_nextn_predict_layers':0}", "num_nextn_predict_layers=", FALSE },
    { "{'model_type':'gpt2','n_embd':64,'n_layer':2,'n_head':4,'vocab_size':100}",
      "n_positions=1024: ", TRUE },
    { "{'model_type':'gpt2','n_embd':64,'n_layer':2,'n_head':4,'vocab_size':100}",
      "resid_pdrop=0.1: ", TRUE },
    { "{'model_type':'mistral','hidden_size':64,'num_hidden_layers':2,'num_attention_heads':4,"
      "'intermediate_size':96,'vocab_size':100}",
      "sliding_window=4096: ", TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    GError *error = NULL;
    g_autoptr (ModelArch) arch = read_config (cases[i].json, &error);
    assert_no_error (error);
    if (has_note (arch, cases[i].note) != cases[i].there)
      print_error ("%s\n", cases[i].note);
    assert_int_equal (has_note (arch, cases[i].note), cases[i].there);
    assert_round_trip (arch);
  }
}

/* One probability stands for all: the largest of those that the file has. */
static void
test_dropout (void **state)
{
#define PHI3                                                                                       \
  "{'model_type':'phi3','hidden_size':64,'num_hidden_layers':2,'num_attention_heads':4,"           \
  "'intermediate_size':96,'vocab_size':100,'tie_word_embeddings':false"
  static const struct {
    const char *json;
    double dropout;
    gboolean noted;
  } cases[] = {
    { LLAMA "}", 0, FALSE },
    { LLAMA ",'attention_dropout':0.1}", 0.1, FALSE },
    { PHI3 ",'resid_pdrop':0.1,'embd_pdrop':0.1,'attention_dropout':0.1}", 0.1, FALSE },
    { PHI3 ",'resid_pdrop':0.1,'embd_pdrop':0.0,'attention_dropout':0.0}", 0.1, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    GError *error = NULL;
    g_autoptr (ModelArch) arch = read_config (cases[i].json, &error);
    assert_no_error (error);
    assert_near (arch->dropout, cases[i].dropout, 1e-12);
    assert_int_equal (has_note (arch, "dropout="), cases[i].noted);
  }
}

/* Names that mean the same; keys that mean nothing to us. */
static void
test_same_meaning (void **state)
{
  static const char *const cases[] = {
    LLAMA ",'torch_dtype':'bfloat16','rope_scaling':null,'pretraining_tp':1}",
    LLAMA ",'dtype':'float16','rope_parameters':{'rope_theta':1e4,'rope_type':'default'}}",
    LLAMA ",'head_dim':16,'num_key_value_heads':4,'attention_bias':false,'mlp_bias':false}",
    LLAMA ",'head_dim':null,'attention_bias':null,'is_encoder_decoder':false}",
    LLAMA ",'hidden_act':'silu','big':123456789012345678901234567890,'tiny':1e-300}",
    "{'model_type':'llava','vision_config':{'hidden_size':9},'text_config':" LLAMA "}}",
  };
  GError *error = NULL;
  g_autoptr (ModelArch) plain = read_config (LLAMA "}", &error);
  assert_no_error (error);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (ModelArch) arch = read_config (cases[i], &error);
    assert_no_error (error);
    assert_same_structure (plain, arch);
  }
}

#define QWEN_MOE                                                                                   \
  "{'model_type':'qwen3_moe','hidden_size':64,'num_hidden_layers':6,'num_attention_heads':4,"      \
  "'vocab_size':100,'intermediate_size':96,'moe_intermediate_size':32,'num_experts_per_tok':2,"
#define DEEPSEEK                                                                                   \
  "{'model_type':'deepseek_v2','hidden_size':64,'num_hidden_layers':5,'num_attention_heads':4,"    \
  "'vocab_size':100,'intermediate_size':96,'moe_intermediate_size':32,'num_experts_per_tok':2,"    \
  "'kv_lora_rank':16,'qk_nope_head_dim':8,'qk_rope_head_dim':4,'v_head_dim':8,"                    \
  "'n_routed_experts':4,"

/* Which layers are dense (d) and which have experts (m). */
static void
test_placement (void **state)
{
  static const struct {
    const char *json, *layers;
  } cases[] = {
    { QWEN_MOE "'num_experts':4}", "mmmmmm" },
    { QWEN_MOE "'num_local_experts':4}", "mmmmmm" },
    { QWEN_MOE "'n_routed_experts':4,'num_experts':4}", "mmmmmm" },
    { QWEN_MOE "'num_experts':4,'decoder_sparse_step':2}", "dmdmdm" },
    { QWEN_MOE "'num_experts':4,'mlp_only_layers':[0,5]}", "dmmmmd" },
    { DEEPSEEK "'first_k_dense_replace':1}", "dmmmm" },
    { DEEPSEEK "'first_k_dense_replace':2,'moe_layer_freq':2}", "ddmdm" },
    { DEEPSEEK "'q_lora_rank':null}", "mmmmm" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    GError *error = NULL;
    g_autoptr (ModelArch) arch = read_config (cases[i].json, &error);
    assert_no_error (error);
    assert_int_equal (arch->layers, strlen (cases[i].layers));
    for (guint32 l = 0; l < arch->layers; l++)
      assert_int_equal (model_arch_run_of (arch, l)->kind,
                        cases[i].layers[l] == 'm' ? MODEL_BLOCK_MOE : MODEL_BLOCK_DENSE);
  }
}

#define QWEN3                                                                                      \
  "{'model_type':'qwen3','hidden_size':64,'num_hidden_layers':4,'num_attention_heads':4,"          \
  "'vocab_size':100,'intermediate_size':96,"
#define GEMMA2                                                                                     \
  "{'model_type':'gemma2','hidden_size':64,'num_hidden_layers':4,'num_attention_heads':4,"         \
  "'vocab_size':100,'intermediate_size':96,'head_dim':16,'sliding_window':7"

/* The window of each of four layers. */
static void
test_windows (void **state)
{
  static const struct {
    const char *json;
    guint32 windows[4];
  } cases[] = {
    { GEMMA2 "}", { 7, 0, 7, 0 } },
    { GEMMA2 ",'layer_types':['full_attention','sliding_attention','full_attention',"
             "'full_attention']}",
      { 0, 7, 0, 0 } },
    { "{'model_type':'gemma3_text','hidden_size':64,'num_hidden_layers':4,"
      "'num_attention_heads':4,'vocab_size':100,'intermediate_size':96,'head_dim':16,"
      "'sliding_window':7,'sliding_window_pattern':3}",
      { 7, 7, 0, 7 } },
    { QWEN3 "'sliding_window':9,'max_window_layers':2}", { 0, 0, 0, 0 } },
    { QWEN3 "'sliding_window':9,'max_window_layers':2,'use_sliding_window':true}", { 0, 0, 9, 9 } },
    { "{'model_type':'llama4_text','hidden_size':64,'num_hidden_layers':4,'num_attention_heads':4,"
      "'vocab_size':100,'intermediate_size':96,'intermediate_size_mlp':96,'num_local_experts':2,"
      "'num_experts_per_tok':1,'attention_chunk_size':5}",
      { 5, 5, 5, 0 } },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    GError *error = NULL;
    g_autoptr (ModelArch) arch = read_config (cases[i].json, &error);
    assert_no_error (error);
    for (guint32 l = 0; l < 4; l++)
      assert_int_equal (model_arch_run_of (arch, l)->window, cases[i].windows[l]);
  }
}

/* @want is part of the message, which is one line and begins with the file. */
typedef struct {
  const char *json;
  ModelError code;
  const char *want;
} RefusalCase;

#define FIVE                                                                                       \
  "'num_hidden_layers':2,'num_attention_heads':4,'intermediate_size':96,'vocab_size':100}"
#define PARSE       MODEL_ERROR_PARSE
#define BAD_VALUE   MODEL_ERROR_BAD_VALUE
#define UNSUPPORTED MODEL_ERROR_UNSUPPORTED

static const RefusalCase refusals[] = {
  { "", PARSE, "config:1: found the end of the text" },
  { "[]", PARSE, "config: found no object" },
  { "{", PARSE, "expected a text in double quotes" },
  { LLAMA, PARSE, "found the end of the text, expected ',' or '}'" },
  { LLAMA ",}", PARSE, "expected a text in double quotes" },
  { LLAMA "} x", PARSE, "found 'x', expected the end of the text" },
  { LLAMA ",'hidden_size':64}", PARSE, "config:1: hidden_size: found twice, expected once" },
  { LLAMA "/**/}", PARSE, "found '/'" },
  { "{'model_type':'llama','hidden_size':NaN," FIVE, PARSE, "found 'NaN', expected a JSON value" },
  { "{'model_type':'llama','hidden_size':-Infinity," FIVE, PARSE, "expected a JSON value" },
  { "{'model_type':'llama','hidden_size':0x40," FIVE, PARSE, "found 'x40', expected ',' or '}'" },
  { "{'model_type':'llama','hidden_size':064," FIVE, PARSE, "found '064', expected a JSON value" },
  { "{'model_type':'llama','hidden_size':-64," FIVE, BAD_VALUE,
    "config: hidden_size: found -64, expected a whole number from 1 to 1048576" },
  { "{'model_type':'llama','hidden_size':0," FIVE, BAD_VALUE, "hidden_size: found 0, expected" },
  { "{'model_type':'llama','hidden_size':1e30," FIVE, BAD_VALUE, "hidden_size: found 1" },
  { "{'model_type':'llama','hidden_size':1e400," FIVE, BAD_VALUE, "hidden_size: found " },
  { "{'model_type':'llama','hidden_size':9223372036854775808," FIVE, BAD_VALUE,
    "hidden_size: found 9" },
  /* 2^64 + 64 */
  { "{'model_type':'llama','hidden_size':18446744073709551680," FIVE, BAD_VALUE,
    "hidden_size: found 1" },
  { "{'model_type':'llama','hidden_size':64.5," FIVE, BAD_VALUE, "hidden_size: found 64.5" },
  { "{'model_type':'llama','hidden_size':'64'," FIVE, BAD_VALUE, "hidden_size: found \"64\"" },
  { "{'model_type':'llama','hidden_size':true," FIVE, BAD_VALUE, "hidden_size: found true" },
  { "{'model_type':'llama','hidden_size':[64]," FIVE, BAD_VALUE, "hidden_size: found [64]" },
  { "{'model_type':'llama','hidden_size':null," FIVE, PARSE, "hidden_size: found nothing" },
  { "{'model_type':'llama'," FIVE, PARSE, "hidden_size: found nothing, expected a whole number" },
  { "{'model_type':'llama','hidden_size':66," FIVE, BAD_VALUE,
    "num_attention_heads: found 4, expected a divisor of the hidden size 66" },
  { LLAMA ",'num_key_value_heads':3}", BAD_VALUE, "kv_heads: found 3, expected a divisor" },
  { LLAMA ",'attention_dropout':-0.1}", BAD_VALUE, "attention_dropout: found -0.1" },
  { LLAMA ",'attention_dropout':1}", BAD_VALUE, "dropout: found 1, expected" },
  { LLAMA ",'tie_word_embeddings':'no'}", BAD_VALUE, "tie_word_embeddings: found \"no\"" },
  { LLAMA ",'hidden_act':'relu2'}", UNSUPPORTED, "hidden_act: found 'relu2'" },
  { LLAMA ",'torch_dtype':16}", BAD_VALUE, "torch_dtype: found 16, expected a text" },
  { LLAMA ",'is_encoder_decoder':true}", UNSUPPORTED, "is_encoder_decoder: found true" },
  { LLAMA ",'quantization_config':'fp8'}", BAD_VALUE, "quantization_config: found \"fp8\"" },
  { GEMMA2 ",'layer_types':['full_attention']}", BAD_VALUE,
    "layer_types: found 1 entries, expected one for each of the 4 layers" },
  { GEMMA2 ",'layer_types':['full_attention','linear_attention',1,2]}", UNSUPPORTED,
    "found 'linear_attention' for layer 1" },
  { GEMMA2 ",'layer_types':[1,2,3,4]}", UNSUPPORTED, "layer_types: found ''" },
  { QWEN_MOE "'num_experts':4,'n_routed_experts':5}", BAD_VALUE,
    "n_routed_experts: found 5, expected 4 as in num_experts" },
  { QWEN_MOE "'num_experts':1}", BAD_VALUE, "topk: found 2, expected 1 to 1" },
  { QWEN_MOE "'num_experts':65537}", BAD_VALUE, "num_experts: found 65537" },
  { QWEN_MOE "'num_experts':4,'mlp_only_layers':[6]}", BAD_VALUE, "mlp_only_layers: entry 0" },
  { QWEN_MOE "'num_experts':4,'mlp_only_layers':['a']}", BAD_VALUE, "mlp_only_layers: entry 0" },
  { QWEN_MOE "'num_experts':4,'decoder_sparse_step':0}", BAD_VALUE, "decoder_sparse_step" },
  { "{'hidden_size':64}", PARSE, "model_type: found nothing" },
  { "{'model_type':7}", BAD_VALUE, "model_type: found 7, expected a text" },
  { "{'model_type':'lama'}", UNSUPPORTED, "was 'llama' meant?" },
  { "{'model_type':'jamba','hidden_size':64}", UNSUPPORTED, "state-space, linear or recurrent" },
  { "{'model_type':'t5','d_model':64}", UNSUPPORTED, "which has an encoder" },
  { "{'model_type':'vit','hidden_size':64}", UNSUPPORTED, "which is a vision model" },
  { "{'_class_name':'DiTTransformer2DModel'}", UNSUPPORTED, "which is a diffusion model" },
  { "{'model_type':'opt','hidden_size':64,'num_hidden_layers':2,'num_attention_heads':4,"
    "'ffn_dim':96,'vocab_size':100,'max_position_embeddings':10,'word_embed_proj_dim':32}",
    UNSUPPORTED, "word_embed_proj_dim: found 32" },
  { "{'model_type':'llava','text_config':{'model_type':'llama','hidden_size':-1}}", BAD_VALUE,
    "config: text_config.hidden_size: found -1" },
  /* 2^16 experts of 2^22 · 2^20 in 4096 layers */
  { "{'model_type':'mixtral','hidden_size':1048576,'num_hidden_layers':4096,"
    "'num_attention_heads':64,'intermediate_size':4194304,'vocab_size':100,"
    "'num_local_experts':65536,'num_experts_per_tok':2}",
    BAD_VALUE, "parameters are more than plait counts" },
};

static void
test_refusal (void **state)
{
  const RefusalCase *c = *state;
  GError *error = NULL;
  g_autoptr (ModelArch) arch = read_config (c->json, &error);
  assert_null (arch);
  assert_non_null (error);
  if (strstr (error->message, c->want) == NULL || error->code != (int)c->code)
    print_error ("got  %s\nwant %s\n", error->message, c->want);
  assert_non_null (strstr (error->message, c->want));
  assert_true (g_error_matches (error, MODEL_ERROR, c->code));
  assert_true (g_str_has_prefix (error->message, "config:"));
  assert_null (strchr (error->message, '\n'));
  g_error_free (error);
}

/* Nesting without end, bytes that are no text, and every way to cut a file short. */
static void
test_hostile (void **state)
{
  GError *error = NULL;
  g_autofree char *deep = g_strnfill (1000000, '[');
  assert_null (model_arch_from_hf_json (deep, -1, "deep", &error));
  assert_non_null (strstr (error->message, "at most 64 levels"));
  g_clear_error (&error);
  assert_null (model_arch_from_hf_json ("{\"a\":\"\xff\"}", -1, "bytes", &error));
  assert_non_null (strstr (error->message, "UTF-8"));
  g_clear_error (&error);
  assert_null (model_arch_from_hf_json ("{\"a\":\"\0\"}", 9, "nul", &error));
  assert_non_null (error);
  g_clear_error (&error);
  g_autofree char *text = with_quotes (counts[G_N_ELEMENTS (counts) - 1].json);
  for (gsize cut = 0; cut < strlen (text); cut++) {
    assert_null (model_arch_from_hf_json (text, (gssize)cut, "cut", &error));
    assert_non_null (error);
    g_clear_error (&error);
  }
}

/* Files: by content, by name, and what is no file. */
static void
test_load (void **state)
{
  GError *error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("plait-XXXXXX", &error);
  assert_no_error (error);
  g_autofree char *path = g_build_filename (folder, "config.json", NULL);
  g_autofree char *json = with_quotes (LLAMA "}");
  assert_true (g_file_set_contents (path, json, -1, &error));
  g_autoptr (ModelArch) arch = model_arch_load (NULL, path, &error);
  assert_no_error (error);
  /* config.json says nothing: the folder names the model */
  g_autofree char *name = g_path_get_basename (folder);
  assert_string_equal (arch->name, name);
  g_autofree char *slashed = g_strconcat (folder, "/", NULL);
  assert_null (model_arch_load (NULL, slashed, &error));
  assert_non_null (strstr (error->message, "is a folder"));
  g_clear_error (&error);
  assert_true (g_file_set_contents (path, "[model]\n", -1, &error));
  assert_null (model_arch_load (NULL, path, &error));
  assert_non_null (strstr (error->message, "expected a JSON object"));
  g_clear_error (&error);
  assert_null (model_arch_load (NULL, "/nowhere/config.json", &error));
  assert_non_null (error);
  g_clear_error (&error);
  assert_null (model_arch_load (NULL, "/dev/zero", &error));
  assert_non_null (strstr (error->message, "is a pipe or device"));
  g_clear_error (&error);
  remove (path);
  remove (folder);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (counts) + G_N_ELEMENTS (refusals) + 6] = {
    cmocka_unit_test (test_notes),        cmocka_unit_test (test_dropout),
    cmocka_unit_test (test_same_meaning), cmocka_unit_test (test_placement),
    cmocka_unit_test (test_windows),      cmocka_unit_test (test_hostile),
    cmocka_unit_test (test_load),
  };
  gsize n = 6;
  for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
    tests[n++] = (struct CMUnitTest){ .name = counts[i].name,
                                      .test_func = test_count,
                                      .initial_state = (void *)&counts[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (refusals); i++)
    tests[n++] = (struct CMUnitTest){ .name = refusals[i].want,
                                      .test_func = test_refusal,
                                      .initial_state = (void *)&refusals[i] };
  return _cmocka_run_group_tests ("model_arch_hf", tests, n, NULL, NULL) != 0;
}
