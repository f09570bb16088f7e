"""ART's client against a server of the embedded model: rollouts, jobs, checkpoints and what becomes of a deleted model."""

import asyncio
import importlib.metadata
import os

import art
import openai
from art.serverless.backend import ServerlessBackend

URL, KEY = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]


async def rollout(model: art.TrainableModel, word: str, member: int) -> art.Trajectory:
    task = {"role": "user", "content": f'Spell "{word}" backwards, one word.'}
    trajectory = art.Trajectory(messages_and_choices=[task], reward=member, metrics={"member": member})
    for said in ("Once more.", "Thank you."):
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=trajectory.messages(), max_tokens=16
        )
        trajectory.messages_and_choices += [reply.choices[0], {"role": "user", "content": said}]
    return trajectory.finish()


async def main() -> None:
    backend = ServerlessBackend(api_key=KEY, base_url=URL)
    model = art.TrainableModel(name="speller", project="art", base_model="anneal/tiny")
    await model.register(backend)
    assert await model.get_step() == 0
    for step in (1, 2):
        groups = await art.gather_trajectory_groups(
            art.TrajectoryGroup(rollout(model, word, member) for member in range(3)) for word in ("river", "planet")
        )
        result = await backend.train(model, groups, learning_rate=1e-4)
        assert result.step == step and result.artifact_name == f"local/art/speller:step{step}"
        assert result.metrics["data/step_num_gradient_steps"] == 2 and result.metrics["loss/grad_norm"] > 0
    await backend._delete_checkpoint_files(model, steps_to_keep=[2])
    assert [one.step async for one in backend._client.models.checkpoints.list(model_id=model.id)] == [2]
    try:
        await backend.train(model, [art.TrajectoryGroup([])], learning_rate=-1)
        raise SystemExit("a negative learning rate was taken")
    except openai.UnprocessableEntityError:
        pass
    await backend.delete(model)
    try:
        await rollout(model, "river", 0)
        raise SystemExit("a deleted model replied")
    except openai.NotFoundError:
        pass
    await backend.close()


asyncio.run(main())
print("openpipe-art", importlib.metadata.version("openpipe-art"))
