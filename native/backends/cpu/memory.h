// Storage and work splitting that every pass shares: aligned buffers, row views, and a team of workers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "../../executor/machine.h"
#include "../../executor/pool.h"
#include "kernels/kernels.h"

namespace anneal::cpu {

using executor::Aborted;
using executor::Pool;

// Bytes that buffers took while this was their thread's account. Where it does not take them, the same code that
// prepares passes says what that needs: counted is what buffers would have to grow by, which stay as they are; planned
// buffers have the size they would have, and no data.
struct MemoryAccount {
  enum class Mode : uint8_t { takes, counts, plans };
  int64_t bytes = 0;
  Mode mode = Mode::takes;

  class Scope {
   public:
    explicit Scope(MemoryAccount& account) : before_(std::exchange(current(), &account)) {}
    ~Scope() { current() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryAccount* before_;
  };
  static MemoryAccount*& current() {
    thread_local MemoryAccount* account = nullptr;
    return account;
  }
};

// Zeroed, 64-byte aligned bytes. Growing throws the old contents away. A buffer must not outlive the account it was
// taken under.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes) { reserve(bytes); }
  Buffer(Buffer&& o) noexcept { swap(o); }
  Buffer& operator=(Buffer&& o) noexcept {
    swap(o);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  // Of memory, once all is written to.
  static int64_t taken_for(size_t bytes) { return bytes ? int64_t(executor::large_pages_bytes(bytes + kSlack)) : 0; }

  // Large buffers arrive as untouched zero pages, so that what is never used costs nothing.
  void reserve(size_t bytes) {
    if (bytes <= size_) return;
    MemoryAccount* const account = MemoryAccount::current();
    if (account && account->mode == MemoryAccount::Mode::counts) {
      account->bytes += taken_for(bytes) - taken_for(size_);
      return;
    }
    release();
    if (account && account->mode == MemoryAccount::Mode::plans) {
      size_ = bytes;
      (account_ = account)->bytes += taken_for(size_);
      return;
    }
    data_ = executor::take_large_pages(bytes + kSlack);
    if (!data_) {
      raw_ = std::calloc(bytes + 63 + kSlack, 1);
      if (!raw_) throw std::bad_alloc();
      data_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(raw_) + 63) & ~uintptr_t(63));
    }
    size_ = bytes;
    if (account) (account_ = account)->bytes += taken_for(size_);
  }
  void release() {
    if (account_) account_->bytes -= taken_for(size_);
    if (data_ && !raw_) executor::give_large_pages(data_, size_ + kSlack);
    std::free(raw_);
    raw_ = nullptr, data_ = nullptr, size_ = 0, account_ = nullptr;
  }
  void swap(Buffer& o) noexcept {
    std::swap(raw_, o.raw_), std::swap(data_, o.data_), std::swap(size_, o.size_), std::swap(account_, o.account_);
  }
  char* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kSlack = 64;  // a whole vector may be read at the end
  void* raw_ = nullptr;                 // where data_ was allocated; null: on large pages
  char* data_ = nullptr;
  size_t size_ = 0;
  MemoryAccount* account_ = nullptr;
};

// Row-major elements of the compute type. No data: the rows are not kept.
struct Rows {
  char* data = nullptr;
  int64_t ld = 0;  // elements from one row to the next
  int elem = 0;    // bytes of an element
  char* at(int64_t row, int64_t col = 0) const { return data + (row * ld + col) * elem; }
  Rows from(int64_t row) const { return data ? Rows{at(row), ld, elem} : *this; }
  explicit operator bool() const { return data != nullptr; }
};

// Row-major float32.
struct Matrix {
  float* data = nullptr;
  int64_t ld = 0;  // elements from one row to the next
  float* at(int64_t row, int64_t col = 0) const { return data + row * ld + col; }
  Matrix from(int64_t row) const { return data ? Matrix{at(row), ld} : *this; }
  Rows as_rows() const { return {reinterpret_cast<char*>(data), ld, int(sizeof(float))}; }
  explicit operator bool() const { return data != nullptr; }
};

// Columns of a row of n elements, padded so that panels of outputs fit.
inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Who runs a loop: the whole pool, or the worker that is already running. After an abort every further loop is skipped.
class Team {
 public:
  explicit Team(Pool& pool) : pool_(&pool) {}
  // A team of one that does not give way to anybody.
  Team() = default;
  // The worker that runs a chunk of this team's; it may be preempted between its own.
  Team one(int worker) const {
    Team team;
    team.chunk_of_ = pool_ ? pool_ : chunk_of_;
    team.worker_ = worker;
    return team;
  }
  int workers() const { return pool_ ? pool_->workers() : 1; }
  bool ok() const { return ok_; }
  // Within a chunk that takes long.
  void preemption_point(int worker) const {
    if (Pool* pool = pool_ ? pool_ : chunk_of_) pool->preemption_point(worker);
  }

  template <class F> bool each(int64_t chunks, F&& f) {
    if (!ok_) return false;
    if (pool_ && chunks > 1) {
      ok_ = pool_->each(chunks, [&](int64_t chunk, int worker) {
        FloatMode mode;
        f(chunk, worker);
      });
    } else {
      for (int64_t chunk = 0; chunk < chunks; chunk++) {
        preemption_point(worker_);
        f(chunk, worker_);
      }
    }
    return ok_;
  }

 private:
  Pool *pool_ = nullptr, *chunk_of_ = nullptr;
  int worker_ = 0;
  bool ok_ = true;
};

}  // namespace anneal::cpu
