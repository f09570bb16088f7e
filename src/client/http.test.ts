import { expect, it } from "vitest";
import { connect } from "./connect.js";
import { toError } from "./http.js";

it.each([
  ["base_model", "base_model"],
  ["messages.0.na%C3%AFve%20name", "messages.0.naïve name"],
  ["50%", "50%"],
])("names the parameter that a header gives as %j", (header, param) => {
  const headers = new Headers({ "x-error-code": "model_exists", "x-error-param": header });
  expect(toError(409, { detail: "there is one already" }, headers)).toMatchObject({
    status: 409,
    code: "model_exists",
    param,
    message: "there is one already",
  });
});

it("is not made without a key", async () => {
  const refused = connect("http://127.0.0.1:8000", {} as { apiKey: string });
  await expect(refused).rejects.toMatchObject({ status: 422, issues: [{ loc: ["options", "apiKey"] }] });
});
