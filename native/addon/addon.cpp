// What the addon exports.
#include "../backends/devices.h"
#include "../executor/machine.h"
#include "../quantization/blocks.h"
#include "grammar_binding.h"
#include "model.h"
#include "model_options.h"
#include "named_tensors.h"
#include "policy_loss_binding.h"
#include "trainer.h"

namespace anneal::addon {

namespace {

// initialize(makeError): makeError(code, message, param, needed, available) returns the error to be thrown.
napi_value initialize(const Arguments& arguments) {
  auto environment = Environment::of(arguments.js.env);
  if (arguments.js.type(arguments.values[0]) != napi_function) invalid("makeError", "must be a function");
  arguments.js.check(napi_create_reference(arguments.js.env, arguments.values[0], 1, &environment->make_error));
  return arguments.js.undefined();
}

napi_value threads(const Arguments& arguments) {
  return arguments.js.number(Environment::of(arguments.js.env)->executor()->threads());
}

napi_value set_threads(const Arguments& arguments) {
  Environment::of(arguments.js.env)->executor()->set_threads(arguments.at(0, "threads").whole(1, 256));
  return arguments.js.undefined();
}

// arithmetics() -> [{name, exact}] of the processor
napi_value arithmetics(const Arguments& arguments) {
  const Js js = arguments.js;
  return js.array(backends::open_device(*Environment::of(js.env)->executor())->arithmetics(), [&](const auto& known) {
    return js.object({{"name", js.text(known.name)}, {"exact", js.boolean(known.exact)}});
  });
}

// availableMemory(device?) -> bytes
napi_value free_memory(const Arguments& arguments) {
  return arguments.js.number(double(backends::available_memory(device_name(arguments.at(0, "device")))));
}

// gpus(hardware) -> promise of [{id, name, driver, kind, memory, available, maxAllocation, problem, fused,
// flushesDenormals, fast, exact}]
napi_value gpus(const Arguments& arguments) {
  const auto wanted =
      arguments.at(0, "hardware").boolean() ? backends::WantedGpus::hardware : backends::WantedGpus::all;
  return Environment::of(arguments.js.env)
      ->start(
          {}, [wanted] { return backends::list_gpus(wanted); },
          [](Js js, const std::vector<backends::GpuDescription>& found) {
            static constexpr const char* kinds[] = {"integrated", "discrete", "virtual", "software", "other"};
            return js.array(found, [&](const backends::GpuDescription& gpu) {
              return js.object({{"id", js.text(gpu.id)},
                                {"name", js.text(gpu.name)},
                                {"driver", js.text(gpu.driver)},
                                {"kind", js.text(kinds[int(gpu.kind)])},
                                {"memory", js.number(double(gpu.memory))},
                                {"available", js.number(double(gpu.available))},
                                {"maxAllocation", js.number(double(gpu.max_allocation))},
                                {"problem", js.text(gpu.problem)},
                                {"fused", js.boolean(gpu.fused)},
                                {"flushesDenormals", js.boolean(gpu.flushes_denormals)},
                                {"fast", js.boolean(gpu.fast)},
                                {"exact", js.boolean(gpu.exact)}});
            });
          });
}

// gpuRate(device) -> promise of {bandwidth, operations, matrixOperations}: bytes and operations in a second
napi_value gpu_rate(const Arguments& arguments) {
  return Environment::of(arguments.js.env)
      ->start(
          {}, [device = device_name(arguments.at(0, "device"))] { return backends::measure_gpu(device); },
          [](Js js, const backends::DeviceRate& rate) {
            return js.object({{"bandwidth", js.number(rate.bandwidth)},
                              {"operations", js.number(rate.operations)},
                              {"matrixOperations", js.number(rate.matrix_operations)}});
          });
}

// pipelines(device) -> Uint8Array: what the driver of a GPU in use made of shaders
napi_value pipelines(const Arguments& arguments) {
  return arguments.js.bytes(backends::pipelines_of(device_name(arguments.at(0, "device"))));
}

// restorePipelines(device, data), before it is opened
napi_value restore_pipelines(const Arguments& arguments) {
  backends::restore_pipelines(device_name(arguments.at(0, "device")), arguments.at(1, "data").bytes());
  return arguments.js.undefined();
}

// memory(config, dtype, device?, gpuLayers?) -> {weights, page, pageGroups, recurrentState, activationPerToken,
// largestPiece}, bytes; see backends/page_groups.h
napi_value memory(const Arguments& arguments) {
  const Js js = arguments.js;
  const Argument config = arguments.at(0, "config");
  const auto spec = model_spec(config, tensor_format(arguments.at(1, "dtype")));
  const auto device = device_name(arguments.at(2, "device"));
  const int gpu_layers = layers_on_gpu(arguments.at(3, "gpuLayers"), spec);
  backends::ModelMemory bytes;
  try {
    bytes = backends::memory_on(device, *Environment::of(js.env)->executor(), spec, gpu_layers);
  } catch (const model::UnsupportedModel& error) {
    invalid(config.path(), error);
  }
  return js.object({{"weights", js.number(double(bytes.weights))},
                    {"page", js.number(double(bytes.page))},
                    {"pageGroups", js.int32s(bytes.groups.windows)},
                    {"recurrentState", js.number(double(bytes.recurrent_state))},
                    {"activationPerToken", js.number(double(bytes.activations_per_token))},
                    {"largestPiece", js.number(double(backends::largest_piece(device, spec, gpu_layers)))}});
}

// weightTensors(config) -> [{name, shape}]
napi_value weight_tensors(const Arguments& arguments) {
  const auto spec = model_spec(arguments.at(0, "config"), model::TensorFormat::f32);
  return named_tensors_out(arguments.js, model::weight_tensors(spec));
}

// adapterTensors(config, spec) -> [{name, shape}]
napi_value adapter_tensors(const Arguments& arguments) {
  const auto spec = model_spec(arguments.at(0, "config"), model::TensorFormat::f32);
  return named_tensors_out(arguments.js, model::adapter_tensors(spec, lora_spec(arguments.at(1, "spec"), spec)));
}

// quantizedFormats() -> [{name, numbers, bytes, bits, isPacked}]: of a block; isPacked: made of tensors of codes,
// scales and zeros
napi_value quantized_formats(const Arguments& arguments) {
  const Js js = arguments.js;
  return js.array(model::kQuantizedFormats, [&](const model::QuantizedFormat& format) {
    return js.object({{"name", js.text(format.name)},
                      {"numbers", js.number(format.numbers)},
                      {"bytes", js.number(format.bytes)},
                      {"bits", js.number(format.bits)},
                      {"isPacked", js.boolean(model::is_integer(format.format))}});
  });
}

// quantize(format, numbers) -> promise of a Uint8Array of blocks
napi_value quantize(const Arguments& arguments) {
  const auto* format = model::quantized_format(arguments.at(0, "format").text(16));
  if (!format || !quantization::can_quantize(format->format)) invalid("format", "is no format that is made here");
  std::vector<float> numbers = arguments.at(1, "numbers").finite_floats();
  if (numbers.size() % format->numbers != 0) invalid("numbers", "are not whole blocks of their format");
  return Environment::of(arguments.js.env)->start(
      {.client = "quantize"},
      [format = format->format, numbers = std::move(numbers)] {
        std::vector<uint8_t> blocks(quantization::row_bytes(format, int64_t(numbers.size())));
        quantization::quantize_row(format, numbers.data(), int64_t(numbers.size()), blocks.data());
        return blocks;
      },
      [](Js js, std::vector<uint8_t> blocks) { return js.bytes(blocks); });
}

napi_value make_cancellation(const Arguments& arguments) {
  auto environment = Environment::of(arguments.js.env);
  return wrap(*environment, std::make_unique<Cancellation>(environment));
}

napi_value start(napi_env env, napi_value exports) {
  return guarded(env, [&](Js js) {
    auto environment = std::make_unique<std::shared_ptr<Environment>>(std::make_shared<Environment>(env));
    js.check(napi_set_instance_data(
        env, environment.get(),
        [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<Environment>*>(data); }, nullptr));
    environment.release();
    define_class<Cancellation>(
        js, "Cancellation", {describe<&Cancellation::abort>("abort"), describe<&Cancellation::progress>("progress")});
    define_model(js);
    define_trainer(js);
    define_grammar(js);
    const std::pair<const char*, napi_callback> functions[] = {{"initialize", function<initialize>},
                                                               {"threads", function<threads>},
                                                               {"setThreads", function<set_threads>},
                                                               {"arithmetics", function<arithmetics>},
                                                               {"availableMemory", function<free_memory>},
                                                               {"gpus", function<gpus>},
                                                               {"gpuRate", function<gpu_rate>},
                                                               {"pipelines", function<pipelines>},
                                                               {"restorePipelines", function<restore_pipelines>},
                                                               {"memory", function<memory>},
                                                               {"weightTensors", function<weight_tensors>},
                                                               {"adapterTensors", function<adapter_tensors>},
                                                               {"load", function<load_model>},
                                                               {"givenLogits", function<given_logits_model>},
                                                               {"quantizedFormats", function<quantized_formats>},
                                                               {"quantize", function<quantize>},
                                                               {"cancellation", function<make_cancellation>},
                                                               {"policyLoss", function<policy_loss_binding>},
                                                               {"grammarVocabulary", function<grammar_vocabulary>},
                                                               {"compileGrammar", function<compile_grammar>}};
    for (auto& [name, callback] : functions) {
      napi_value value;
      js.check(napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &value));
      js.set(exports, name, value);
    }
    js.set(exports, "version", js.text(ANNEAL_VERSION));
    return exports;
  });
}

}  // namespace

}  // namespace anneal::addon

NAPI_MODULE_INIT() { return anneal::addon::start(env, exports); }
