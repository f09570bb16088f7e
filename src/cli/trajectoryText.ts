import type { MessageOrChoice, Trajectory, TrajectoryHistory, TrajectoryMessage } from "../types/trajectories.js";
import { printable, shortNumber } from "./terminalText.js";

/** A trajectory as lines for a terminal: one conversation after the other, a message a paragraph. */
export function trajectoryText(trajectory: Trajectory): string[] {
  const histories: TrajectoryHistory[] = [trajectory, ...(trajectory.additional_histories ?? [])];
  const lines = histories.flatMap((history, h) => [
    ...(h > 0 ? [`(history ${h + 1})`] : []),
    ...history.messages_and_choices.flatMap(messageText),
  ]);
  const metrics = Object.entries(trajectory.metrics ?? {}).map(
    ([name, value]) => `${name} ${typeof value === "number" ? shortNumber(value) : value}`,
  );
  if (metrics.length > 0) lines.push(`(${metrics.join(", ")})`);
  return lines.map(printable);
}

function messageText(item: MessageOrChoice): string[] {
  const message = "message" in item ? item.message : item;
  const calls = (message.tool_calls ?? []).map((call) =>
    call.type === "function" ? `calls ${call.function.name}(${call.function.arguments})` : `calls ${call.id}`,
  );
  const text = contentOf(message.content);
  const ended = "finish_reason" in item && item.finish_reason === "length" ? " (cut off)" : "";
  const spoken = text === "" && calls.length > 0 ? [] : text.split("\n");
  return [...spoken, ...calls].map((line, i, all) => {
    const label = i === 0 ? `${message.role}: ` : "  ";
    return `${label}${line}${i === all.length - 1 ? ended : ""}`;
  });
}

function contentOf(content: TrajectoryMessage["content"]): string {
  if (content == null) return "";
  if (typeof content === "string") return content;
  return content.map((part) => part.text ?? `[${part.type}]`).join("");
}
