// What those read who report on training without doing it: the meaning of its settings, and how its numbers are averaged.

export { groupAdvantages, meanOf } from "./advantages.js";
export { learningRates } from "./learningRates.js";
export { means, rewardDeviation } from "./logMetrics.js";
export { resolvePolicy } from "./policy.js";
