/** The shape of a model of one layer, for randomFolder(), to which a test adds heads of its own. */
export const smallShape = {
  model_type: "llama",
  architectures: ["LlamaForCausalLM"],
  hidden_act: "silu",
  hidden_size: 64,
  intermediate_size: 64,
  num_hidden_layers: 1,
  vocab_size: 128,
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
};

/** `length` tokens that lie all over a vocabulary. */
export const mixedTokens = (length: number, vocab: number): Int32Array =>
  Int32Array.from({ length }, (_, i) => (Math.imul(i + 1, 2654435761) >>> 8) % vocab);
