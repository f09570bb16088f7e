// `strftime_now`: the date in the words of C's strftime, English names, local time.

import { budget } from "./budget.js";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];
const DAY_MILLISECONDS = 86_400_000;
/** What one directive costs: it may ask the calendar several times. */
const STEPS_PER_DIRECTIVE = 32;

export function strftime(date: Date, format: string): string {
  budget().text(format.length);
  return format.replace(/%([-_0^#]?)([a-zA-Z%])/g, (whole, flag: string, directive: string) => {
    budget().step(STEPS_PER_DIRECTIVE);
    const text = directiveText(date, directive);
    if (text === undefined) return whole;
    if (flag === "-") return text.replace(/^[0 ]+(?=.)/, "");
    if (flag === "_") return text.replace(/^0+(?=.)/, (zeros) => " ".repeat(zeros.length));
    return flag === "^" || flag === "#" ? text.toUpperCase() : text;
  });
}

function directiveText(date: Date, directive: string): string | undefined {
  const two = (value: number) => String(value).padStart(2, "0");
  const spaced = (value: number) => String(value).padStart(2);
  const weekday = date.getDay();
  const hour12 = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
  const all = (format: string) => strftime(date, format);
  switch (directive) {
    case "Y":
      return String(date.getFullYear());
    case "C":
      return two(Math.floor(date.getFullYear() / 100));
    case "y":
      return two(date.getFullYear() % 100);
    case "m":
      return two(date.getMonth() + 1);
    case "d":
      return two(date.getDate());
    case "e":
      return spaced(date.getDate());
    case "H":
      return two(date.getHours());
    case "k":
      return spaced(date.getHours());
    case "I":
      return two(hour12);
    case "l":
      return spaced(hour12);
    case "M":
      return two(date.getMinutes());
    case "S":
      return two(date.getSeconds());
    case "f":
      return String(date.getMilliseconds() * 1000).padStart(6, "0");
    case "p":
      return date.getHours() < 12 ? "AM" : "PM";
    case "P":
      return date.getHours() < 12 ? "am" : "pm";
    case "a":
      return DAYS[weekday]!.slice(0, 3);
    case "A":
      return DAYS[weekday]!;
    case "b":
    case "h":
      return MONTHS[date.getMonth()]!.slice(0, 3);
    case "B":
      return MONTHS[date.getMonth()]!;
    case "w":
      return String(weekday);
    case "u":
      return String(weekday === 0 ? 7 : weekday);
    case "j":
      return String(dayOfYear(date) + 1).padStart(3, "0");
    case "U":
      return two(Math.floor((dayOfYear(date) + 7 - weekday) / 7));
    case "W":
      return two(Math.floor((dayOfYear(date) + 7 - ((weekday + 6) % 7)) / 7));
    case "s":
      return String(Math.floor(date.getTime() / 1000));
    case "c":
      return all("%a %b %e %H:%M:%S %Y");
    case "x":
    case "D":
      return all("%m/%d/%y");
    case "X":
    case "T":
      return all("%H:%M:%S");
    case "R":
      return all("%H:%M");
    case "F":
      return all("%Y-%m-%d");
    case "n":
      return "\n";
    case "t":
      return "\t";
    // A naive Python datetime has no zone.
    case "z":
    case "Z":
      return "";
    case "%":
      return "%";
    default:
      return undefined;
  }
}

/** Days since 1 January, counted on the calendar, not on the clock: days may have 23 or 25 hours. */
function dayOfYear(date: Date): number {
  const day = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((day - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MILLISECONDS);
}
