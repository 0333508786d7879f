"""Tiny random models of many architectures, as transformers saves them, and inputs that reach every part of them."""

import torch
import transformers as hf

VOCABULARY, IMAGE_TOKEN, START, END = 96, 90, 92, 93
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = {**TEXT, "num_key_value_heads": 2}
IMAGE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}
STACKS = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
GPT2 = {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
DISTILBERT = {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}
SPEECH = {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20, "classifier_proj_size": 16}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}
QWEN_TOKENS = {
    "image_token_id": IMAGE_TOKEN,
    "video_token_id": 91,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
}


def words(count=7):
    return {"input_ids": torch.arange(3, 3 + count).reshape(1, count)}


def both_stacks():
    return {**words(), "decoder_input_ids": words(4)["input_ids"]}


def image():
    return {"pixel_values": torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16)}


def image_and_words():
    return {"input_ids": torch.tensor([[1, *[IMAGE_TOKEN] * 4, 5, 6]]), **image()}


def sound():
    return {"input_features": torch.linspace(-1, 1, 16 * 40).reshape(1, 16, 40)}


def qwen_image():
    return {
        "input_ids": torch.tensor([[1, START, IMAGE_TOKEN, END, 5, 6]]),
        "mm_token_type_ids": torch.tensor([[0, 0, 1, 0, 0, 0]]),
        "pixel_values": torch.linspace(-1, 1, 4 * 3 * 2 * 64).reshape(4, 384),
        "image_grid_thw": torch.tensor([[1, 2, 2]]),
    }


def llava():
    vision, text = hf.CLIPVisionConfig(**IMAGE), hf.LlamaConfig(**GROUPED)
    return hf.LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE_TOKEN)


def paligemma():
    vision, text = hf.SiglipVisionConfig(**IMAGE), hf.GemmaConfig(**GROUPED, head_dim=8)
    sizes = {"projection_dim": 32, "hidden_size": 32}
    return hf.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE_TOKEN, **sizes)


def qwen2_vl():
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 8}
    return hf.Qwen2VLConfig(text_config={**GROUPED, **MROPE}, vision_config=vision, **QWEN_TOKENS)


def whisper():
    return hf.WhisperConfig(**STACKS, **SPEECH, **TOKENS)


def deepseek():
    ranks = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    experts = {"moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1}
    return hf.DeepseekV3Config(**GROUPED, **ranks, **experts, topk_group=1, first_k_dense_replace=1)


def zamba2():
    """Two layers share a block, whose weight the file has once: its scale would be unset in the second."""
    kinds = ["mamba", "hybrid", "mamba", "mamba", "hybrid", "mamba"]
    sizes = {"mamba_d_state": 8, "mamba_headdim": 8, "mamba_ngroups": 1, "n_mamba_heads": 8, "chunk_size": 8}
    text = {**TEXT, "num_hidden_layers": 6, "num_key_value_heads": 4}
    return hf.Zamba2Config(
        **text, **sizes, layers_block_type=kinds, hybrid_layer_ids=[1, 4], num_mem_blocks=1, adapter_rank=4
    )


def clip():
    return hf.CLIPConfig(text_config={**TEXT, "eos_token_id": 95}, vision_config=IMAGE, projection_dim=16)


# Class, configuration, input. A class that has no row in the table of docs/cli.md fails a test.
LOADED = {
    "llama": (hf.LlamaForCausalLM, lambda: hf.LlamaConfig(**GROUPED, tie_word_embeddings=False), words),
    "llama, tied": (hf.LlamaForCausalLM, lambda: hf.LlamaConfig(**GROUPED, tie_word_embeddings=True), words),
    "llama, base": (hf.LlamaModel, lambda: hf.LlamaConfig(**GROUPED), words),
    "llama, classes": (hf.LlamaForSequenceClassification, lambda: hf.LlamaConfig(**GROUPED, pad_token_id=0), words),
    "t5, tied": (hf.T5ForConditionalGeneration, lambda: hf.T5Config(**T5), both_stacks),
    "t5": (hf.T5ForConditionalGeneration, lambda: hf.T5Config(**T5, tie_word_embeddings=False), both_stacks),
    "t5, encoder": (hf.T5EncoderModel, lambda: hf.T5Config(**T5), words),
    "bert": (hf.BertForMaskedLM, lambda: hf.BertConfig(**TEXT), words),
    "bert, base": (hf.BertModel, lambda: hf.BertConfig(**TEXT), words),
    "bert, classes": (hf.BertForSequenceClassification, lambda: hf.BertConfig(**TEXT), words),
    "bert, answers": (hf.BertForQuestionAnswering, lambda: hf.BertConfig(**TEXT), words),
    "modernbert": (hf.ModernBertForMaskedLM, lambda: hf.ModernBertConfig(**TEXT, **TOKENS), words),
    "gpt-neox": (hf.GPTNeoXForCausalLM, lambda: hf.GPTNeoXConfig(**TEXT), words),
    "gpt-neox, base": (hf.GPTNeoXModel, lambda: hf.GPTNeoXConfig(**TEXT), words),
    "opt": (
        hf.OPTForCausalLM,
        lambda: hf.OPTConfig(**{**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 16}),
        words,
    ),
    "mamba": (
        hf.MambaForCausalLM,
        lambda: hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4),
        words,
    ),
    "vit": (hf.ViTForImageClassification, lambda: hf.ViTConfig(**IMAGE, num_labels=5), image),
    "vit, base": (hf.ViTModel, lambda: hf.ViTConfig(**IMAGE), image),
    "whisper": (
        hf.WhisperForConditionalGeneration,
        whisper,
        lambda: {**sound(), "decoder_input_ids": words(4)["input_ids"]},
    ),
    "whisper, classes": (hf.WhisperForAudioClassification, whisper, sound),
    "qwen2-vl": (hf.Qwen2VLForConditionalGeneration, qwen2_vl, qwen_image),
    "llava": (hf.LlavaForConditionalGeneration, llava, image_and_words),
    "paligemma": (hf.PaliGemmaForConditionalGeneration, paligemma, image_and_words),
    "gpt-j": (hf.GPTJForCausalLM, lambda: hf.GPTJConfig(**GPT2, rotary_dim=4), words),
    "bloom": (
        hf.BloomForCausalLM,
        lambda: hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4),
        words,
    ),
    "falcon": (hf.FalconForCausalLM, lambda: hf.FalconConfig(**TEXT), words),
    "phi": (hf.PhiForCausalLM, lambda: hf.PhiConfig(**TEXT), words),
    "gemma2": (hf.Gemma2ForCausalLM, lambda: hf.Gemma2Config(**GROUPED, head_dim=8), words),
    "distilbert": (hf.DistilBertForMaskedLM, lambda: hf.DistilBertConfig(**DISTILBERT), words),
    "distilbert, classes": (hf.DistilBertForSequenceClassification, lambda: hf.DistilBertConfig(**DISTILBERT), words),
    "roberta": (hf.RobertaForMaskedLM, lambda: hf.RobertaConfig(**TEXT), words),
    "roberta, classes": (hf.RobertaForSequenceClassification, lambda: hf.RobertaConfig(**TEXT), words),
    "bart": (hf.BartForConditionalGeneration, lambda: hf.BartConfig(**STACKS), words),
    "bart, base": (hf.BartModel, lambda: hf.BartConfig(**STACKS), words),
    "clip": (hf.CLIPModel, clip, lambda: {**words(), **image()}),
    "clip, image": (
        hf.CLIPVisionModelWithProjection,
        lambda: hf.CLIPVisionConfig(**IMAGE, projection_dim=16),
        image,
    ),
    "tapas": (hf.TapasModel, lambda: hf.TapasConfig(**TEXT), words),
    "nomic-bert": (hf.NomicBertModel, lambda: hf.NomicBertConfig(**TEXT), words),
    "granite-moe": (hf.GraniteMoeForCausalLM, lambda: hf.GraniteMoeConfig(**GROUPED, num_local_experts=4), words),
    "gpt-oss": (
        hf.GptOssForCausalLM,
        lambda: hf.GptOssConfig(**GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
        words,
    ),
}

# What transformers cannot load with codes.
REFUSED = {
    "mixtral": (hf.MixtralForCausalLM, lambda: hf.MixtralConfig(**GROUPED, num_local_experts=4)),
    "qwen2_moe": (
        hf.Qwen2MoeForCausalLM,
        lambda: hf.Qwen2MoeConfig(**GROUPED, **EXPERTS, shared_expert_intermediate_size=16),
    ),
    "qwen3_moe": (hf.Qwen3MoeForCausalLM, lambda: hf.Qwen3MoeConfig(**GROUPED, **EXPERTS, head_dim=8)),
    "olmoe": (hf.OlmoeForCausalLM, lambda: hf.OlmoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2)),
    "deepseek_v3": (hf.DeepseekV3ForCausalLM, deepseek),
    "phimoe": (hf.PhimoeForCausalLM, lambda: hf.PhimoeConfig(**GROUPED, num_local_experts=4)),
    "llama4_text": (
        hf.Llama4ForCausalLM,
        lambda: hf.Llama4TextConfig(**GROUPED, head_dim=8, num_local_experts=4, intermediate_size_mlp=48),
    ),
    "zamba2": (hf.Zamba2ForCausalLM, zamba2),
    "dinov2": (hf.Dinov2ForImageClassification, lambda: hf.Dinov2Config(**IMAGE, mlp_ratio=2, num_labels=5)),
}
