// Place a hold, look at what it blocks, plan, and release it, with the client that docs/api.md generates.
import { Configuration, HoldApi, PlanApi, ResponseError, StatusApi } from "./client";

async function main(): Promise<void> {
  const configuration = new Configuration({
    basePath: process.env.SEXTON_API_URL,
    accessToken: process.env.SEXTON_API_TOKEN,
  });
  const instance = process.argv[2];
  const holds = new HoldApi(configuration);

  const status = await new StatusApi(configuration).status({ instance });
  console.log(`${instance} is in mode ${status.instances[0].mode}`);

  const holdAddRequest = { seconds: 3600, reason: "an example in TypeScript" };
  const placed = await holds.holdAdd({ instance, holdAddRequest });
  console.log(`hold ${placed.hold.hold} blocks ${placed.blocksNow} marks`);

  const planned = await new PlanApi(configuration).planNew({ instance });
  console.log(`plan ${planned.plan.plan} was made`);

  await holds.holdRelease({ hold: placed.hold.hold });
  try {
    await holds.holdRelease({ hold: 999999 });
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    console.log(`another hold: ${error.response.status}`);
  }
}

main();
