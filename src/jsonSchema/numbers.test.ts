import { testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [
    { type: "integer", minimum: -3, maximum: 120 },
    ["-3", "0", "-0", "7", "99", "120"],
    ["-4", "121", "7.5", "1200", "07", "7.0", "1.2e2", "5e-0", "1e01"],
  ],
  [{ type: "integer", exclusiveMinimum: 2.5 }, ["3", "10", "99999999999999999999"], ["2", "-3", "0"]],
  [{ type: "integer", multipleOf: 7, minimum: 10 }, ["14", "70", "105", "7000"], ["7", "15", "0", "-14"]],
  [
    { type: "integer", multipleOf: 13, maximum: 2 ** 53 - 1 },
    ["-13", "9007199254740986", "-999999999999988"],
    // Double precision reads it as no multiple.
    ["-12083718383095813919291921139901731909511991073190291190913399119", "9007199254740995", "-13.0"],
  ],
  [
    { type: "number", minimum: 0, exclusiveMaximum: 1.5 },
    ["0", "0.0", "-0.0", "1", "1.49999", "1e0", "1.4e0", "5e-3", "1.05e-7"],
    ["1.5", "1.50", "2", "-1", "-0.1", "1.5e0", "1e1", "15e-2"],
  ],
  [
    { type: "number", exclusiveMinimum: -2.25 },
    ["-2.2", "0", "-2.2499", "5e10", "-1e0", "-0"],
    ["-2.25", "-2.250", "-3", "-2.3e0", "-1e1"],
  ],
  [{ type: "number", multipleOf: 0.01 }, ["1.25", "3", "-0.5", "1.250", "1e-2"], ["1.255", "1e-3"]],
  [
    { type: "number", multipleOf: 2.5, minimum: 0 },
    ["0", "-0", "2.5", "5", "5.00", "12.50", "100", "1002.5"],
    ["2", "-2.5", "0.5", "12.51", "3.5"],
  ],
  [{ type: "number", multipleOf: 0.25, minimum: -1, maximum: 1 }, ["-0.75", "1", "0", "0.25"], ["0.3", "1.25", "1.0"]],
  [
    { type: "number" },
    ["1.7976931348623157e308", "-5e-324", "1E+0007", "123.5e10", "12e-400", "0e99", "9".repeat(300)],
    ["1e309", "-1.7976931348623159e308", "12e308", "1e400", "01", "1.", ".5", "1e", "+1"],
  ],
  [{ type: "number", minimum: 1 }, ["1.7976931348623157e308"], ["1.7976931348623159e308", "1e309"]],
  [{ type: "number", exclusiveMinimum: 0 }, ["2.5e-323"], ["1e-324", "1e-400"]],
  [{ type: "integer" }, ["0", "-0", "12", "9".repeat(300)], ["1.5", "1.0", "-12.00", "1e+21", "1.5E1", "1e-1", ".5"]],
  [{ type: "number", not: { type: "integer" } }, ["1.5", "1e-7", "-1.25e1"], ["1", "1.0", "1.5e1", "1.50e1", "1e0"]],
  // What double precision reads as an integer satisfies both alternatives.
  [
    { oneOf: [{ type: "integer", minimum: 1e30 }, { type: "number" }] },
    ["0.30000000000000004", "1.0000000000000002", "-1.9999999999999998", "0.9999999999999999", "12.345678901234567"],
    ["1e30"],
  ],
  [
    { type: "number", not: { type: "integer" } },
    ["0.30000000000000004", "1.0000000000000002", "-1.9999999999999998", "0.9999999999999999", "12.345678901234567"],
    ["1.0000000000000001", "0.99999999999999999", "2251799813685249.1", "8628455660767324782234623.20993"],
  ],
  [{ const: 120 }, ["120"], ["12", "120.1", "120.0", "1.2e2"]],
  [
    { enum: [1e21, -0, 0.5, 2.5] },
    ["1000000000000000000000", "0", "0.5", "2.5"],
    ["1e21", "1e+21", "-0", "5e-1", "2.50"],
  ],
  [{ const: 1e-7 }, ["1e-7"], ["1e-8", "0", "1e-07", "0.0000001"]],
  [{ type: "integer", minimum: 1, exclusiveMinimum: true, maximum: 3, exclusiveMaximum: true }, ["2"], ["1", "3"]],
  [
    { type: "integer", minimum: 1.7976931348623157e308 },
    [`17976931348623157${"0".repeat(292)}`, "9".repeat(309)],
    ["1.7976931348623157e308", `17976931348623156${"9".repeat(292)}`, "1e309"],
  ],
  [
    { type: "integer", maximum: -12_500_000_000_000_000_000 },
    ["-12500000000000000000", "-12500000000000000001", "-100000000000000000000"],
    ["-1.25e19", "-12499999999999999999", "-9e19", "12500000000000000000"],
  ],
  [{ type: "integer", minimum: 0.5, maximum: 1e20 }, ["1", "100000000000000000000"], ["0", "100000000000000000001"]],
  [
    { type: "number", minimum: -1e-7, maximum: 1e21 },
    ["-0.0000001", "-1e-7", "1e21", "1e+21", "1000000000000000000000"],
    ["-0.00000011", "-2e-7", "1.1e21", "1e22"],
  ],
  [{ type: "number", const: 0.1 }, ["0.1"], ["0.2", "1"]],
]);

// Remainders that more digits leave equal are one state, in whatever way the divisors hold twos and fives.
testSchemas(
  [
    { type: "integer", multipleOf: 24 },
    { type: "integer", multipleOf: 30, not: { multipleOf: 8 } },
    { type: "integer", multipleOf: 6, minimum: 37, not: { multipleOf: 20 } },
    { type: "integer", multipleOf: 250, maximum: 123_456_789 },
    { type: "integer", multipleOf: 14, minimum: -2_000_000, maximum: 3_000_000 },
    { type: "number", multipleOf: 0.12, minimum: 0 },
    { type: "number", multipleOf: 0.08 },
  ].map((schema): [unknown, string[], string[]] => {
    const places = schema.type === "integer" ? 0 : 2;
    const scaled = (value: number) => Math.round(value * 10 ** places);
    const values = Array.from({ length: 400 }, (_, i) => (i < 300 ? i : i * 997 - 300_000) * (i % 7 === 0 ? -1 : 1));
    const isAllowed = (value: number) =>
      value % scaled(schema.multipleOf) === 0 &&
      value >= scaled(schema.minimum ?? Number.NEGATIVE_INFINITY) &&
      value <= scaled(schema.maximum ?? Number.POSITIVE_INFINITY) &&
      (schema.not === undefined || value % schema.not.multipleOf !== 0);
    const texts = (wanted: boolean) =>
      values.filter((value) => isAllowed(value) === wanted).map((value) => String(value / 10 ** places));
    return [schema, texts(true), texts(false)];
  }),
);
