#include "freed_memory.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace anneal::executor {

FreedMemory::~FreedMemory() {
#ifdef __GLIBC__
  if (bytes >= kWorthwhile) ::malloc_trim(0);
#endif
}

}  // namespace anneal::executor
