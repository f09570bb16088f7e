// What arrays of different items take away from masks: tokens after which an item would be equal to an earlier one, or
// could only become so.
#pragma once
#include <vector>

#include "configurations.h"
#include "mask.h"
#include "unique_items.h"
#include "vocabulary.h"

namespace anneal::grammar {

// The configuration after a byte, which `items` reads as well; kDead, and `items` has not read it: it may not follow.
uint32_t unique_step(Configurations& configurations, uint32_t from, uint8_t byte, UniqueItems& items);

// Whether the item being written can still become another than all earlier ones. `items` is left as it is.
bool can_differ(Configurations& configurations, uint32_t configuration, UniqueItems& items);

// Takes out of a configuration's mask what `items` rule out.
void restrict_to_unique(const Vocabulary& vocabulary, Configurations& configurations, uint32_t configuration,
                        UniqueItems& items, Mask& mask);

}  // namespace anneal::grammar
