"""What the generated table of bad values hits that is legal, and why.

INI: (kind of file, first word of the group, key, variant) -> reason. CONFIG: (key, variant) of a
config.json, "*" for every variant. FLAGS: (option, variant). LAYOUTS: (key, variant).
"""

# Keys that hold free text: any text is one; nothing, and bytes that are not UTF-8, are not.
TEXT = {"source", "name", "product", "family", "as_of", "aliases", "board", "frameworks", "assumed", "generation", "kind",
        "compute_capability", "pci_ids"} - {"kind", "generation"}

INI = {}


def allow(kind, group, keys, variants, reason):
    for key in keys.split():
        for variant in variants.split():
            INI[kind, group, key, variant] = reason


ANY = "negative zero nan inf 1e30 2^63 2^64 empty unit missing"

allow("model", "model", "source family", "missing empty", "text for people, not needed to plan")
allow("model", "attention", "source", "missing empty", "text for people, not needed to plan")
allow("model", "blocks", "source", "missing empty", "text for people, not needed to plan")
allow("model", "model", "layers", "missing", "follows from the blocks")
allow("model", "model", "seq global_batch", "missing", "given on the command line")
allow("model", "model", "dropout mlp_bias", "missing zero", "none")
allow("model", "model", "gated tied", "zero", "0 is no")
allow("model", "attention", "q_lora_rank qk_rope_dim", "missing zero", "none: queries are not compressed, no rotary part")
allow("model", "attention", "qkv_bias out_bias", "missing zero", "none")
allow("model", "attention", "kv_heads head_dim", "missing", "as many as heads; hidden / heads")
allow("model", "blocks", "kind", "missing", "dense")
allow("model", "blocks", "router_bias shared_ffn", "missing zero", "none")

for group in ("links", "pcie", "network"):
    allow("machine", group, "source", "missing empty", "text for people; [machine] source is needed")
allow("machine", "machine", "assumed", "missing empty", "nothing is assumed")
allow("machine", "machine", "domain", "missing", "one node")
allow("machine", "links", "nvls", "missing zero", "none")
allow("machine", "links", "pairs", "zero", "a list of GPUs in which 0 is the first")
allow("machine", "network", "rails serves", "missing", "as many as NICs; even")
allow("machine", "pcie", "inter_socket p2p", "missing", "assumed and said so")
allow("machine", "numa", "socket", "missing zero", "the first socket")
allow("machine", "numa", "gpus nics", "zero", "the first GPU or NIC")
allow("machine", "switch", "gpus nics numa", "zero", "the first GPU, NIC or NUMA node")
allow("machine", "numa", "nics", "missing empty", "a node without NICs")
allow("machine", "switch", "nics", "missing empty", "a switch without NICs")
allow("links", "nvlink5", "nvls_from_gpus", "missing", "its switches do not reduce")
allow("machine", "price", "per_gpu_hour", "zero", "a machine that costs nothing")

allow("gpu", "gpu", "aliases board pci_ids compute_capability", "missing empty", "text, not needed to plan")
allow("gpu", "gpu", "generation", "long", "text")
allow("gpu", "gpu", "generation", ANY.replace(" empty", "").replace(" missing", ""), "text")
allow("gpu", "memory", "kind", ANY, "text, not needed to plan")
allow("gpu", "gpu", "sm_count tdp", "missing", "unknown")
for group in ("peak", "memory", "links"):
    allow("gpu", group, "source", "missing empty", "text for people; [gpu] source is needed")
allow("gpu", "memory", "l2", "zero missing", "unknown")
allow("gpu", "memory", "label_gb usable_reading", "missing", "unknown")
allow("gpu", "memory", "reserved", "zero", "a driver that keeps nothing")
allow("gpu", "peak", "fp32 tf32 fp16 bf16 fp8 fp4 clock", "missing", "unknown: a job in that type is refused")
allow("gpu", "links", "pcie c2c_rate copy_ratio", "missing", "unknown, none")

allow("profile", "profile", "frameworks", "missing empty", "no measured run is taken for this profile's")
for group, keys in {"kernels": "fused_norm fused_activation fused_residual fused_cross_entropy compiled keeps_everything "
                               "checkpoints_on_host selective_by_op grouped_gemm dummy_wgrad fused_bias_grad qkv_copies kv_copies core_copies joins_grads recompute_stops_early",
                    "communication": "all_reduces_zero1 reduces_before_sends overlap_param_gather overlap_dp overlap_tp overlap_p2p reshard_after_forward keeps_stage_output",
                    "states": "shards_main_grad_zero1 offloads_optimizer", "allocator": "expandable_segments"}.items():
    allow("profile", group, keys, "zero", "0 is no")
allow("profile", "states", "param_bytes grad_bytes main_grad_bytes master_bytes moment_bytes step_copy_bytes", "zero",
      "a framework that keeps no such copy; weights are in param or master")
allow("profile", "states_fp16", "main_grad_bytes step_copy_bytes", "zero missing", "as above; those of [states]")
allow("profile", "communication", "bucket_elements live_elements max_zero max_zero_with_pp", "zero", "no buckets; no ZeRO with pipelines")
allow("profile", "communication", "max_zero", "missing", "all of ZeRO")
allow("profile", "loss", "logits_peak_bytes logits_kept_bytes", "zero", "logits are not materialised")
allow("profile", "model", "balances_by_cost moe_needs_sp", "zero", "0 is no")
allow("profile", "allocator", "context", "zero", "counted elsewhere")
allow("profile", "row_defaults", "sp cp pp vpp ep shard recompute dtype attn dropout", "missing", "the framework has no habit")
allow("profile", "row_defaults", "kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim layers_on_gpu", "missing", "the framework has no such default")
allow("profile", "row_defaults", "sp dropout", "zero", "0 is no")
allow("profile", "row_defaults", "shard recompute attn", ANY.replace(" empty", ""), "words that validate reads, row by row")

DEFAULTED = "the group of the GPU, fabric or profile at work states it; refused where that one lacks it too"
allow("calibration", "calibration", "name", "missing empty", "the name of the file")
allow("calibration", "fabric", "bandwidth hop straggler", "missing", DEFAULTED)
allow("calibration", "fabric", "hop straggler", "zero", "costs nothing")
allow("calibration", "link", "base hop", "zero", "costs nothing")
allow("calibration", "link", "bulk_shard alltoall_copy", "zero", "one protocol for all sizes; no copy to oneself")
allow("calibration", "collective", "bulk_base low_rise low_fill bulk_fill fill network_ring_fill broadcast_hops torch_loop one_process", "zero",
      "costs nothing")
allow("calibration", "collective", "alltoall_low broadcast_eager low_rise_shard network_rise network_rise_shard pat_hop pat_rank sharp_latency", "zero", "the bulk protocol at all sizes; no message is eager")
allow("calibration", "link", "assumed", "missing", "measured")
allow("calibration", "profile", "assumed", "missing", "measured")
allow("calibration", "gpu", "padding", "missing", DEFAULTED)
allow("calibration", "gpu", "gpus", ANY, "names of GPUs, of files that may come later")
allow("calibration", "gpu", "largest_run", "missing", "not known, or none")
allow("calibration", "gpu", "accumulate attention_backward attention_flash attention_fused attention_half_dim attention_portable "
      "attention_unfused ceiling_16bit ceiling_fp8 cublas_workspace feed gemm_memory hbm k0 launch long_loss mxfp8 nvls_share "
      "power power_exponent split step wave", "missing", DEFAULTED)
allow("calibration", "gpu", "accumulate attention_half_dim cublas_workspace k0 launch long_loss nvls_share padding power_exponent split warm_l2 wave",
      "zero", "the effect is absent")
allow("calibration", "memory", "allocated_extra communicator sigma_assumed sigma_moe sigma_unseen", "zero", "the effect is absent")
allow("calibration", "profile", "attention_portable host_layer memory_factor need need_changing overlap_dp overlap_ep overlap_tp overlap_wgrad "
      "p2p_host reserved sigma sigma_need", "missing", DEFAULTED)
allow("calibration", "gpu", "embed norm rope act_mul add cross_entropy adam", "missing", "nobody measured this kernel: as the bytes say")
allow("calibration", "gpu", "embed_backward norm_backward rope_backward act_mul_backward cross_entropy_backward", "missing",
      "nobody measured this kernel's backward: as its forward")
allow("calibration", "gpu", "attention_tile", "missing zero", "the kernel masks key by key")
allow("calibration", "link", " ".join(f"{c}_{size}" for c in ("all_reduce", "all_gather", "reduce_scatter")
                                      for size in ("16k", "512k", "16m", "256m")), "missing", "as the formulas say")
allow("calibration", "collective", "alltoall_uplink", "missing zero", "rings' numbers speak for an all-to-all")
allow("calibration", "profile", "step_corrections overhead", "missing", "all corrections; no overhead")
allow("calibration", "profile", "step_corrections overhead", "zero", "the effect is absent")
allow("calibration", "profile", "attention_portable host_layer overlap_dp overlap_ep overlap_tp overlap_wgrad p2p_host", "zero",
      "the effect is absent")
allow("calibration", "step", "align_loss alltoall_steps bubble collective_delta expert_host fixed graph_layer graph_full host_adam "
      "host_forward host_wait interference misalign_loss sinks moe_host nvls_latency p2p p2p_interleaved score_backward score_forward stage_imbalance unoverlapped_tp", "zero", "the effect is absent")
allow("calibration", "step", "host_forward host_wait", "missing", "a third of it, as calibrations made before had it; nobody waits for another rank's host")
allow("calibration", "uncertainty", "sigma_assumed sigma_scale sigma_guessed", "zero", "no spread")
allow("calibration", "uncertainty", "sigma_guessed", "missing", "none")

CONFIG = {}


def allow_config(keys, variants, reason):
    for key in keys.split():
        for variant in variants.split():
            CONFIG[key, variant] = reason


allow_config("architectures bos_token_id eos_token_id initializer_range n_group norm_topk_prob pretraining_tp rms_norm_eps "
             "rope_scaling rope_theta routed_scaling_factor scoring_func topk_group transformers_version use_cache layer_norm_epsilon "
             "n_ctx n_special predict_special_tokens summary_activation summary_first_dropout summary_proj_to_labels summary_type "
             "summary_use_proj task_specific_params output_router_logits router_aux_loss_coef", "* twice",
             "of no consequence for size or speed, not read")
allow_config("attention_bias first_k_dense_replace hidden_act moe_layer_freq n_routed_experts n_shared_experts topk_method torch_dtype "
             "activation_function attn_pdrop embd_pdrop resid_pdrop n_positions attention_dropout mlp_bias num_key_value_heads "
             "tie_word_embeddings sliding_window", "missing null", "the family's default")
allow_config("first_k_dense_replace n_shared_experts attn_pdrop embd_pdrop resid_pdrop attention_dropout", "zero", "none")
allow_config("torch_dtype topk_method", "text", "a word; the layout says the type, and routing costs the same")

# Read by some families only.
UNREAD = {"max_position_embeddings": "rotary positions have no table", "num_key_value_heads": "latent attention has none"}
for model, key in (("llama-3.1-8b", "max_position_embeddings"), ("mixtral-8x7b", "max_position_embeddings"),
                   ("deepseek-v2-lite", "max_position_embeddings"), ("deepseek-v2-lite", "num_key_value_heads")):
    CONFIG[model, key] = UNREAD[key]

FLAGS = {("--dropout", "zero"): "no dropout", ("--seed", "zero"): "the default", ("--max-oom-risk", "zero"): "no risk at all", ("--layout", "empty"): "all defaults"}
for name in ("negative", "zero", "nan", "inf", "1e30", "2^63", "2^64", "empty", "unit", "long", "blank", "line"):
    FLAGS["topo --machine", name] = "read only where the file is partial"

LAYOUTS = {(key, "zero"): "0 is no" for key in ("sp", "zero", "fsdp", "overlap_tp", "overlap_dp", "overlap_p2p", "overlap_ep")}

# Faults that are known and not mended yet: reported as notes, and no longer here once mended.
KNOWN = {}
