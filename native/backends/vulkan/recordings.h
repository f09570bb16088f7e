// Commands by what they depend on: what is like something before is submitted again, and not recorded again.
#pragma once
#include <cstdint>
#include <list>
#include <vector>

#include "commands.h"

namespace anneal::vulkan {

// Numbers and addresses that recorded commands contain.
using RecordingKey = std::vector<uint64_t>;

class Recordings {
 public:
  explicit Recordings(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  // Commands that were recorded for this key, else ones that `record` puts together now. Good until the next call.
  template <class F> Commands& of(const RecordingKey& key, F&& record) {
    for (auto at = all_.begin(); at != all_.end(); ++at)
      if (at->key == key) {
        all_.splice(all_.begin(), all_, at);
        return all_.front().commands;
      }
    if (all_.size() == kMaxRecordings) all_.pop_back();
    all_.emplace_front(key, gpu_);
    try {
      record(all_.front().commands);
      all_.front().commands.end();
    } catch (...) {
      all_.pop_front();
      throw;
    }
    return all_.front().commands;
  }

 private:
  static constexpr size_t kMaxRecordings = 64;  // the batch sizes of a busy engine
  struct Recording {
    Recording(RecordingKey k, const std::shared_ptr<Gpu>& gpu)
        : key(std::move(k)), commands(gpu, Commands::Use::again) {}
    RecordingKey key;
    Commands commands;
  };
  std::shared_ptr<Gpu> gpu_;
  std::list<Recording> all_;  // the latest used first
};

}  // namespace anneal::vulkan
