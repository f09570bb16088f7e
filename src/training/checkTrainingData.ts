// A look through training data before a job is asked for.

/**
 * Checks a JSONL file of conversations as a supervised job does before it trains on them.
 * @returns how many there are.
 * @throws TrainingDataError for the first line that is no conversation.
 */
export async function checkTrainingData(file: string): Promise<number> {
  const { readExamples } = await import("./sftData.js");
  let count = 0;
  for await (const _ of readExamples(file, file)) count += 1;
  return count;
}
