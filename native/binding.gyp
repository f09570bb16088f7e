# One library per instruction set, so that flags of one never reach another's objects; one addon that holds them all.
{
  "variables": {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"]
  },
  "targets": [
    {
      "target_name": "kernels_portable",
      "includes": ["flags.gypi"],
      "type": "static_library",
      "sources": ["kernels/dispatch.cpp", "kernels/float_mode.cpp", "kernels/isa_portable.cpp"]
    },
    {
      "target_name": "anneal",
      "includes": ["flags.gypi"],
      "defines": ["NAPI_VERSION=8"],
      "dependencies": ["kernels_portable"],
      "sources": [
        "addon/addon.cpp", "addon/arguments.cpp", "addon/decoder_options.cpp", "addon/environment.cpp",
        "addon/grammar_binding.cpp", "addon/model.cpp",
        "addon/named_tensors.cpp", "addon/policy_loss_binding.cpp", "addon/slot.cpp", "addon/step.cpp", "addon/tensor_source.cpp", "addon/trainer.cpp",
        "decoder/adapter.cpp", "decoder/batch.cpp", "decoder/decoder.cpp", "decoder/head.cpp", "decoder/layer_backward.cpp",
        "decoder/layer_forward.cpp", "decoder/parameters.cpp", "decoder/rope.cpp", "decoder/train_pass.cpp", "decoder/weights.cpp",
        "executor/background.cpp", "executor/executor.cpp", "executor/machine.cpp",
        "grammar/automaton.cpp", "grammar/configurations.cpp", "grammar/expression_weights.cpp", "grammar/expressions.cpp",
        "grammar/known_automata.cpp", "grammar/local_mask.cpp",
        "grammar/mask_maker.cpp", "grammar/matcher.cpp", "grammar/minimal.cpp", "grammar/network.cpp", "grammar/utf8.cpp", "grammar/vocabulary.cpp",
        "sampling/sampler.cpp",
        "training/policy_loss.cpp"
      ],
      "conditions": [
        ["target_arch=='x64'", {"dependencies": ["kernels_avx2", "kernels_avx512", "kernels_avx512bf16"]}],
        ["OS=='linux'", {"libraries": ["-pthread"]}]
      ]
    }
  ],
  "conditions": [
    ["target_arch=='x64'", {
      "targets": [
        {
          "target_name": "kernels_avx2",
          "includes": ["flags.gypi"],
          "type": "static_library",
          "sources": ["kernels/isa_avx2.cpp"],
          "cflags_cc": ["<@(avx2)"],
          "xcode_settings": {"OTHER_CPLUSPLUSFLAGS": ["<@(avx2)"]},
          "msvs_settings": {"VCCLCompilerTool": {"AdditionalOptions": ["/arch:AVX2"]}}
        },
        {
          "target_name": "kernels_avx512",
          "includes": ["flags.gypi"],
          "type": "static_library",
          "sources": ["kernels/isa_avx512.cpp"],
          "cflags_cc": ["<@(avx512)"],
          "xcode_settings": {"OTHER_CPLUSPLUSFLAGS": ["<@(avx512)"]},
          "msvs_settings": {"VCCLCompilerTool": {"AdditionalOptions": ["/arch:AVX512"]}}
        },
        {
          "target_name": "kernels_avx512bf16",
          "includes": ["flags.gypi"],
          "type": "static_library",
          "sources": ["kernels/isa_avx512bf16.cpp"],
          "cflags_cc": ["<@(avx512)", "-mavx512bf16"],
          "xcode_settings": {"OTHER_CPLUSPLUSFLAGS": ["<@(avx512)", "-mavx512bf16"]},
          "msvs_settings": {"VCCLCompilerTool": {"AdditionalOptions": ["/arch:AVX512"]}}
        }
      ]
    }]
  ]
}
