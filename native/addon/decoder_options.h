// What a decoder is, as JavaScript describes it.
#pragma once
#include "../backends/cpu/decoder.h"
#include "arguments.h"

namespace anneal::addon {

DType element_type(const Argument& argument);
// Every size and ratio in a range in which no arithmetic on it can overflow.
DecoderConfig decoder_config(const Argument& config, DType dtype);
LoraSpec lora_spec(const Argument& spec);
OptimizerSettings optimizer_settings(const Argument& settings);
// Hugging Face's name of a projection ("q_proj") and of its place in a layer ("self_attn.q_proj").
const char* projection_place(int projection);

}  // namespace anneal::addon
