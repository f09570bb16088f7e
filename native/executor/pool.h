// The workers that all compute shares, and how a loop over chunks is spread over them.
#pragma once
#include <cstdint>
#include <stdexcept>

namespace anneal::executor {

// A function called with (context, chunk index, worker index). Chunks are handed out dynamically: results must not
// depend on who runs which. Scratch is indexed by worker (0 <= worker < Pool::workers()), never by chunk.
using ChunkFn = void (*)(void* context, int64_t chunk, int worker);

// Thrown by what cannot say otherwise that its work was aborted.
struct Aborted : std::runtime_error {
  Aborted() : std::runtime_error("the call was aborted") {}
};

class Pool {
 public:
  virtual ~Pool() = default;
  // Constant during one task (one step, one forward, one backward); may differ in the next.
  virtual int workers() const = 0;
  // Runs fn for every chunk 0..chunks-1 and returns when all are done. Chunks should take 0.02 to 2 ms. Called by one
  // thread at a time (the dispatcher). Training loops give way to a waiting inference step between chunks (it runs on
  // other scratch). Returns false if the work was aborted (the loop's remaining chunks were skipped; outputs are
  // garbage and must not be used). The first exception thrown by a chunk ends the loop and is thrown here.
  virtual bool run(int64_t chunks, ChunkFn fn, void* context) = 0;

  // A chunk of training that takes long gives way here now and then: whatever it holds must be its own. `worker` is the
  // chunk's.
  virtual void preemption_point(int worker) { (void)worker; }

  template <class F> bool each(int64_t chunks, F&& f) {
    auto* body = &f;
    return run(
        chunks, [](void* c, int64_t chunk, int worker) { (*static_cast<decltype(body)>(c))(chunk, worker); }, body);
  }
};

}  // namespace anneal::executor
