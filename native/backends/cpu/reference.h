// For tests: just enough JSON and safetensors to read small model folders and recorded numbers.
#pragma once
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace anneal::cpu::reference {

struct Json {
  enum Kind { null, boolean, number, text, list, object } kind = null;
  double value = 0;
  std::string string;
  std::vector<Json> items;
  std::map<std::string, Json> fields;
  bool has(const std::string& key) const { return fields.count(key) && fields.at(key).kind != null; }
  const Json& operator[](const std::string& key) const {
    if (!fields.count(key)) throw std::runtime_error("no field " + key);
    return fields.at(key);
  }
  double number_or(const std::string& key, double otherwise) const {
    return has(key) ? fields.at(key).value : otherwise;
  }
};

class JsonParser {
 public:
  explicit JsonParser(const std::string& s) : s_(s) {}
  Json parse() {
    skip();
    Json j;
    const char c = s_.at(at_);
    if (c == '{' || c == '[') {
      at_++;
      j.kind = c == '{' ? Json::object : Json::list;
      const char end = c == '{' ? '}' : ']';
      for (skip(); s_.at(at_) != end; skip()) {
        if (s_[at_] == ',') {
          at_++;
          continue;
        }
        if (c == '[') {
          j.items.push_back(parse());
        } else {
          std::string key = quoted();
          skip();
          at_++;
          j.fields[key] = parse();
        }
      }
      at_++;
    } else if (c == '"') {
      j.kind = Json::text, j.string = quoted();
    } else if (std::isalpha(c)) {
      j.kind = c == 'n' ? Json::null : Json::boolean, j.value = c == 't';
      while (at_ < s_.size() && std::isalpha(s_[at_])) at_++;
    } else {
      size_t used = 0;
      j.kind = Json::number, j.value = std::stod(s_.substr(at_, 40), &used);
      at_ += used;
    }
    return j;
  }

 private:
  void skip() {
    while (std::isspace(s_.at(at_))) at_++;
  }
  std::string quoted() {
    std::string out;
    for (at_++; s_.at(at_) != '"'; at_++) {
      if (s_[at_] == '\\') at_++;
      out += s_.at(at_);
    }
    at_++;
    return out;
  }
  const std::string& s_;
  size_t at_ = 0;
};

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}
inline bool exists(const std::string& path) { return std::ifstream(path).good(); }
inline Json read_json(const std::string& path) {
  const std::string s = read_text(path);
  return JsonParser(s).parse();
}

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::vector<int32_t> integers() const { return {values.begin(), values.end()}; }
};
using Arrays = std::map<std::string, Array>;

inline void read_safetensors(const std::string& path, Arrays& out) {
  const std::string s = read_text(path);
  uint64_t header = 0;
  std::memcpy(&header, s.data(), 8);
  const std::string text = s.substr(8, header);
  const Json j = JsonParser(text).parse();
  for (const auto& [name, t] : j.fields) {
    if (name == "__metadata__") continue;
    Array a;
    int64_t n = 1;
    for (const Json& d : t["shape"].items) a.shape.push_back(int64_t(d.value)), n *= int64_t(d.value);
    const char* at = s.data() + 8 + header + int64_t(t["data_offsets"].items[0].value);
    a.values.resize(n);
    const std::string& type = t["dtype"].string;
    for (int64_t i = 0; i < n; i++) {
      if (type == "F32") {
        std::memcpy(&a.values[i], at + 4 * i, 4);
      } else if (type == "I32") {
        int32_t v;
        std::memcpy(&v, at + 4 * i, 4);
        a.values[i] = float(v);
      } else if (type == "BF16") {
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<char*>(&bits) + 2, at + 2 * i, 2);
        std::memcpy(&a.values[i], &bits, 4);
      } else {
        throw std::runtime_error(path + ": type " + type);
      }
    }
    out[name] = std::move(a);
  }
}

// Rows [first, first + rows) of one expert, of a tensor [experts][all rows][columns].
inline Array expert_rows(const Array& a, int64_t expert, int64_t first, int64_t rows) {
  const auto from = a.values.begin() + (expert * a.shape[1] + first) * a.shape[2];
  return {{rows, a.shape[2]}, {from, from + rows * a.shape[2]}};
}

// The matrices of each expert, of a tensor of all.
inline void split_experts(const std::string& name, const Array& a, Arrays& out) {
  const size_t end = name.find_last_of('.');
  const bool fused = name.ends_with(".gate_up_proj");
  const int64_t rows = fused ? a.shape[1] / 2 : a.shape[1];
  for (int64_t e = 0; e < a.shape[0]; e++) {
    const std::string of = name.substr(0, end + 1) + std::to_string(e) + ".";
    out[of + (fused ? "gate_proj.weight" : "down_proj.weight")] = expert_rows(a, e, 0, rows);
    if (fused) out[of + "up_proj.weight"] = expert_rows(a, e, rows, rows);
  }
}

// The same of GPT-OSS, whose tensors are [experts][columns][rows], rows of gate and up by turns, and have vectors
// beside them [experts][rows].
inline void split_turned_experts(const std::string& name, const Array& a, Arrays& out) {
  const bool bias = name.ends_with("_bias"), fused = name.find(".gate_up_proj") != std::string::npos;
  const int64_t cols = bias ? 1 : a.shape[1], all = a.shape.back(), parts = fused ? 2 : 1, rows = all / parts;
  for (int64_t e = 0; e < a.shape[0]; e++)
    for (int64_t part = 0; part < parts; part++) {
      Array of{{rows}, std::vector<float>(size_t(rows * cols))};
      if (!bias) of.shape.push_back(cols);
      for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
          of.values[size_t(r * cols + c)] = a.values[size_t((e * cols + c) * all + r * parts + part)];
      const char* const projection = !fused ? "down_proj" : part ? "up_proj" : "gate_proj";
      out[name.substr(0, name.find(".experts.") + 9) + std::to_string(e) + "." + projection +
          (bias ? ".bias" : ".weight")] = std::move(of);
    }
}

// What folders of Granite with experts have in the place of others' names.
inline const std::pair<std::string, std::string> kGraniteNames[] = {
    {"block_sparse_moe.router.layer.weight", "mlp.gate.weight"},
    {"block_sparse_moe.input_linear.weight", "mlp.experts.gate_up_proj"},
    {"block_sparse_moe.output_linear.weight", "mlp.experts.down_proj"},
};

// Of a folder of a model that also sees, the text's; each expert's by itself.
inline void read_text_weights(const std::string& path, bool turned, Arrays& out) {
  Arrays found;
  read_safetensors(path, found);
  const std::string tower = "model.language_model.";
  for (auto& [name, a] : found) {
    std::string text = name.starts_with(tower) ? "model." + name.substr(tower.size()) : name;
    for (const auto& [stored, meant] : kGraniteNames)
      if (text.ends_with(stored)) text.replace(text.size() - stored.size(), stored.size(), meant);
    const size_t router = text.find(".mlp.router.");
    if (text.ends_with(".mlp.experts.gate_up_proj") || text.ends_with(".mlp.experts.down_proj"))
      turned ? split_turned_experts(text, a, out) : split_experts(text, a, out);
    else if (text.ends_with("_proj_bias"))
      split_turned_experts(text, a, out);
    else if (router != std::string::npos)
      out[text.substr(0, router) + ".mlp.gate." + text.substr(router + 12)] = std::move(a);
    else
      out[text] = std::move(a);
  }
}

inline Arrays read_weights(const std::string& folder) {
  Arrays out;
  const bool turned = read_json(folder + "/config.json")["model_type"].string == "gpt_oss";
  if (!exists(folder + "/model.safetensors.index.json")) {
    read_text_weights(folder + "/model.safetensors", turned, out);
    return out;
  }
  std::map<std::string, bool> files;
  const Json index = read_json(folder + "/model.safetensors.index.json");
  for (const auto& [name, file] : index["weight_map"].fields) files[file.string] = true;
  for (const auto& [file, seen] : files) read_text_weights(folder + "/" + file, turned, out);
  return out;
}

}  // namespace anneal::cpu::reference
