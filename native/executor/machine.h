// What the operating system says and does: cores, memory, pages.
#pragma once
#include <cstddef>
#include <cstdint>

namespace anneal::executor {

// Physical cores this process may use: affinity and control-group quota respected, hyper-threads of one core counted
// once. At least 1.
int usable_cores();

// Cores that a quota of processor time keeps busy: a thread more would be throttled, and all others wait for it. At
// least 1.
int whole_cores(double quota);

// Bytes that could be taken now without swapping, also by the limits of the process and of its control group.
int64_t available_memory();

// What many small pieces of memory took goes back to the system, once they are freed: glibc keeps it where something
// behind it is in use.
void give_back_freed_memory();

// Zeroed memory on large pages, which takes no room until it is touched: reading gigabytes of weights through small
// pages would miss the processor's table of pages every 4 KiB. Null where the system has none to offer, or `bytes` are
// too few to fill one.
char* take_large_pages(size_t bytes);
// What is taken for `bytes`: the last page is large too, where that is not much more.
size_t large_pages_bytes(size_t bytes);
// Gives back what was taken for `bytes`.
void give_large_pages(char* pages, size_t bytes);

// Says that a person waits for what this thread computes, where the system would otherwise put it on slow cores.
void claim_fast_cores();

// Tells the processor that this thread is spinning.
void spin_pause();

}  // namespace anneal::executor
