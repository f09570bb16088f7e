#include "named_tensors.h"

#include <unordered_map>

namespace anneal::addon {

TensorValues named_tensors(const Argument& list, const std::vector<model::TensorShape>& expected) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < expected.size(); ++i) index.emplace(expected[i].name, i);
  TensorValues values(expected.size());
  std::vector<bool> given(expected.size());
  list.each(1 << 20, [&](const Argument& entry) {
    entry.object();
    const auto name = entry.at("name").text(512);
    const Path path(name.c_str());
    const auto found = index.find(name);
    if (found == index.end()) invalid(path, "is no tensor of this model");
    const auto& tensor = expected[found->second];
    if (given[found->second]) invalid(path, "is given twice");
    given[found->second] = true;
    std::vector<int64_t> shape;
    entry.at("shape").each(8, [&](const Argument& a) { shape.push_back(a.integer(0, int64_t(1) << 40)); });
    auto& data = values[found->second];
    data = Argument(entry.js(), entry.at("data").value(), path).finite_floats();
    if (shape != tensor.dimensions() || int64_t(data.size()) != tensor.elements())
      invalid(path, "must have the shape [" + std::to_string(tensor.rows) + (tensor.convolution ? ", 1" : "") +
                        (tensor.cols ? ", " + std::to_string(tensor.cols) : "") + "]");
  });
  for (size_t i = 0; i < expected.size(); ++i)
    if (!given[i]) invalid(Path(expected[i].name.c_str()), "is missing");
  return values;
}

backends::AdapterValues adapter_values(const model::ModelSpec& model, const model::LoraSpec& spec,
                                       const TensorValues& values) {
  return [places = model::AdapterPlaces(model, spec), &values](int layer, int p, bool b) {
    const model::AdapterPlace place = places.of(layer, p, b);
    return values.at(place.tensor).data() + place.element;
  };
}

napi_value named_tensors_out(Js js, const std::vector<model::TensorShape>& tensors) {
  return js.array(tensors, [&](const model::TensorShape& tensor) {
    return js.object({{"name", js.text(tensor.name)}, {"shape", js.array(tensor.dimensions(), [&](int64_t length) {
                                                         return js.number(double(length));
                                                       })}});
  });
}

namespace {

// For the garbage collector, which does not see memory that it has not taken.
void count_memory(napi_env env, int64_t bytes) {
  int64_t total;
  napi_adjust_external_memory(env, bytes, &total);
}

// A Float32Array of the values where they are: an adapter has a hundred megabytes of them, and Node's thread would do
// nothing else while it copied these.
napi_value given(Js js, std::vector<float>& values) {
  if (values.empty()) return js.floats(values);
  auto owned = std::make_unique<std::vector<float>>(std::move(values));
  const size_t count = owned->size();
  napi_value buffer, view;
  const napi_status status = napi_create_external_arraybuffer(
      js.env, owned->data(), count * sizeof(float),
      [](napi_env env, void*, void* whole) {
        const std::unique_ptr<std::vector<float>> values(static_cast<std::vector<float>*>(whole));
        count_memory(env, -int64_t(values->size() * sizeof(float)));
      },
      owned.get(), &buffer);
  // Electron keeps all memory of JavaScript in one place.
  if (status == napi_no_external_buffers_allowed) return js.floats(*owned);
  js.check(status);
  owned.release();
  count_memory(js.env, int64_t(count * sizeof(float)));
  js.check(napi_create_typedarray(js.env, napi_float32_array, count, buffer, 0, &view));
  return view;
}

}  // namespace

napi_value named_tensors_out(Js js, const std::vector<model::TensorShape>& tensors, TensorValues values) {
  napi_value list = named_tensors_out(js, tensors);
  for (uint32_t i = 0; i < tensors.size(); ++i) js.set(js.get(list, i), "data", given(js, values[i]));
  return list;
}

}  // namespace anneal::addon
