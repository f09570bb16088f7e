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
  const Path path("threads");
  Environment::of(arguments.js.env)->executor()->set_threads(int(arguments.at(0, path).integer(1, 256)));
  return arguments.js.undefined();
}

napi_value kernel_sets(const Arguments& arguments) {
  const Js js = arguments.js;
  const auto names = backends::open_device(*Environment::of(js.env)->executor())->arithmetics();
  napi_value list = js.array(names.size());
  for (size_t i = 0; i < names.size(); ++i) js.set(list, uint32_t(i), js.text(names[i]));
  return list;
}

// availableMemory(device?) -> bytes
napi_value free_memory(const Arguments& arguments) {
  const Path path("device");
  return arguments.js.number(double(backends::available_memory(device_name(arguments.at(0, path)))));
}

// gpus(hardware) -> promise of [{id, name, driver, kind, memory, available, maxAllocation, problem, fused,
// flushesDenormals, exact}]
napi_value gpus(const Arguments& arguments) {
  auto found = std::make_shared<std::vector<backends::GpuDescription>>();
  const Path path("hardware");
  const auto wanted = arguments.at(0, path).boolean() ? backends::WantedGpus::hardware : backends::WantedGpus::all;
  return Environment::of(arguments.js.env)
      ->start(
          {}, [found, wanted] { *found = backends::list_gpus(wanted); },
          [found](Js js) {
            static constexpr const char* kinds[] = {"integrated", "discrete", "virtual", "software", "other"};
            napi_value list = js.array(found->size());
            for (size_t i = 0; i < found->size(); ++i) {
              const auto& gpu = (*found)[i];
              napi_value entry = js.object();
              js.set(entry, "id", js.text(gpu.id));
              js.set(entry, "name", js.text(gpu.name));
              js.set(entry, "driver", js.text(gpu.driver));
              js.set(entry, "kind", js.text(kinds[int(gpu.kind)]));
              js.set(entry, "memory", js.number(double(gpu.memory)));
              js.set(entry, "available", js.number(double(gpu.available)));
              js.set(entry, "maxAllocation", js.number(double(gpu.max_allocation)));
              js.set(entry, "problem", js.text(gpu.problem));
              js.set(entry, "fused", js.boolean(gpu.fused));
              js.set(entry, "flushesDenormals", js.boolean(gpu.flushes_denormals));
              js.set(entry, "exact", js.boolean(gpu.exact));
              js.set(list, uint32_t(i), entry);
            }
            return list;
          });
}

// gpuRate(device) -> promise of {bandwidth, operations}: bytes and operations in a second
napi_value gpu_rate(const Arguments& arguments) {
  const Path path("device");
  auto rate = std::make_shared<backends::DeviceRate>();
  return Environment::of(arguments.js.env)
      ->start(
          {}, [rate, device = device_name(arguments.at(0, path))] { *rate = backends::measure_gpu(device); },
          [rate](Js js) {
            napi_value result = js.object();
            js.set(result, "bandwidth", js.number(rate->bandwidth));
            js.set(result, "operations", js.number(rate->operations));
            return result;
          });
}

// pipelines(device) -> Uint8Array: what the driver of a GPU in use made of shaders
napi_value pipelines(const Arguments& arguments) {
  const Path path("device");
  const auto data = backends::pipelines_of(device_name(arguments.at(0, path)));
  return arguments.js.bytes(data.data(), data.size());
}

// restorePipelines(device, data), before it is opened
napi_value restore_pipelines(const Arguments& arguments) {
  const Path device_path("device"), data_path("data");
  backends::restore_pipelines(device_name(arguments.at(0, device_path)), arguments.at(1, data_path).bytes());
  return arguments.js.undefined();
}

// memory(config, dtype, device?, gpuLayers?) -> {weights, page, pageGroups, recurrentState, activationPerToken,
// largestPiece}, bytes; see backends/page_groups.h
napi_value memory(const Arguments& arguments) {
  const Js js = arguments.js;
  const Path config_path("config"), dtype_path("dtype"), device_path("device"), layers_path("gpuLayers");
  const auto spec = model_spec(arguments.at(0, config_path), tensor_format(arguments.at(1, dtype_path)));
  const auto device = device_name(arguments.at(2, device_path));
  const int gpu_layers = layers_on_gpu(arguments.at(3, layers_path));
  backends::ModelMemory bytes;
  try {
    bytes = backends::memory_on(device, *Environment::of(js.env)->executor(), spec, gpu_layers);
  } catch (const model::UnsupportedModel& error) {
    invalid(Path(config_path, error.field.c_str()), error.problem);
  }
  napi_value result = js.object();
  js.set(result, "weights", js.number(double(bytes.weights)));
  js.set(result, "page", js.number(double(bytes.page)));
  js.set(result, "pageGroups", js.int32s(bytes.groups.windows.data(), bytes.groups.windows.size()));
  js.set(result, "recurrentState", js.number(double(bytes.recurrent_state)));
  js.set(result, "activationPerToken", js.number(double(bytes.activations_per_token)));
  js.set(result, "largestPiece", js.number(double(backends::largest_piece(device, spec, gpu_layers))));
  return result;
}

// weightTensors(config) -> [{name, shape}]
napi_value weight_tensors(const Arguments& arguments) {
  const Path path("config");
  return named_tensors_out(arguments.js,
                           model::weight_tensors(model_spec(arguments.at(0, path), model::TensorFormat::f32)), nullptr);
}

// adapterTensors(config, spec) -> [{name, shape}]
napi_value adapter_tensors(const Arguments& arguments) {
  const Path config_path("config"), spec_path("spec");
  const auto spec = model_spec(arguments.at(0, config_path), model::TensorFormat::f32);
  return named_tensors_out(arguments.js, model::adapter_tensors(spec, lora_spec(arguments.at(1, spec_path), spec)),
                           nullptr);
}

// quantizedFormats() -> [{name, numbers, bytes, isPacked}]: of a block; isPacked: made of tensors of codes, scales and
// zeros
napi_value quantized_formats(const Arguments& arguments) {
  const Js js = arguments.js;
  napi_value list = js.array(std::size(model::kQuantizedFormats));
  for (uint32_t i = 0; i < std::size(model::kQuantizedFormats); ++i) {
    const model::QuantizedFormat& format = model::kQuantizedFormats[i];
    napi_value entry = js.object();
    js.set(entry, "name", js.text(std::string(format.name)));
    js.set(entry, "numbers", js.number(format.numbers));
    js.set(entry, "bytes", js.number(format.bytes));
    js.set(entry, "bits", js.number(format.bits));
    js.set(entry, "isPacked", js.boolean(model::is_integer(format.format)));
    js.set(list, i, entry);
  }
  return list;
}

// quantize(format, numbers) -> Uint8Array of blocks
napi_value quantize(const Arguments& arguments) {
  const Path format_path("format"), numbers_path("numbers");
  const auto* format = model::quantized_format(arguments.at(0, format_path).text(16));
  if (!format || !quantization::can_quantize(format->format)) invalid(format_path, "is no format that is made here");
  const std::vector<float> numbers = arguments.at(1, numbers_path).finite_floats();
  if (numbers.size() % format->numbers != 0) invalid(numbers_path, "are not whole blocks of their format");
  std::vector<uint8_t> blocks(quantization::row_bytes(format->format, int64_t(numbers.size())));
  quantization::quantize_row(format->format, numbers.data(), int64_t(numbers.size()), blocks.data());
  return arguments.js.bytes(blocks.data(), blocks.size());
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
    define_class<Cancellation>(js, "Cancellation",
                               {describe<Cancellation, &Cancellation::abort>("abort"),
                                describe<Cancellation, &Cancellation::progress>("progress")});
    define_model(js);
    define_trainer(js);
    define_grammar(js);
    const std::pair<const char*, napi_callback> functions[] = {{"initialize", function<initialize>},
                                                               {"threads", function<threads>},
                                                               {"setThreads", function<set_threads>},
                                                               {"kernelSets", function<kernel_sets>},
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
