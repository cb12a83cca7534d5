"""`evokernel judge-server`: the verdicts of a warm judge over HTTP."""

import click
from rich.text import Text

from evokernel.cli.display.tables import sheet
from evokernel.cli.display.text import DIM, STRONG, WARN, clean, stderr, stdout
from evokernel.cli.options import host_option, port_option
from evokernel.cli.serve import let_sigterm_interrupt, need_web_server
from evokernel.tasks import task_path


@click.command(
    epilog="Ctrl-C ends it. docs/judge.md says what to send. The connection is not encrypted: over a network that "
    "others can read, leave --host out and use `ssh -L PORT:127.0.0.1:PORT`."
)
@click.argument("task", metavar="TASK")
@click.option(
    "--language", type=click.Choice(["auto", "cpp", "triton", "cuda"]), default="auto", show_default=True,
    help="The language of the kernels; auto takes the usual one of the device.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True,
    help="Where to judge; auto takes an NVIDIA GPU where there is one that the task can use.",
)  # fmt: skip
@click.option(
    "--fidelity", type=click.Choice(["quick", "precise", "final"]), default="quick", show_default=True,
    help="How long to measure; a request may ask for another.",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads a kernel may use.")
@host_option
@port_option
@click.option(
    "--token", default="", envvar="EVOKERNEL_JUDGE_TOKEN", metavar="TEXT",
    help="What requests must bring; made at random if left out. Others of this machine see it in the list of "
    "processes: EVOKERNEL_JUDGE_TOKEN gives it unseen.",
)  # fmt: skip
def command(
    *, task: str, language: str, device: str, fidelity: str, threads: int, host: str, port: int, token: str
) -> None:
    """Judge kernels for TASK, a built-in task or a task file, as they come in over HTTP.

    It is the judge of a search, kept warm. A request brings a batch of sources; its answer brings their evaluations.
    """
    task_path(task)
    need_web_server()
    from evokernel.judging.judge import Judge
    from evokernel.judging.server import BatchServer

    let_sigterm_interrupt()
    console = stdout()
    try:
        with (
            BatchServer(token=token, host=host, port=port) as server,  # what is wrong with these is told at once
            Judge(task, language=language, device=device, fidelity=fidelity, threads=threads) as judge,
        ):
            server.ask(judge)
            console.print(Text(clean(server.url), style=STRONG), soft_wrap=True)
            judged = f"{judge.task.name} in {judge.language} on {clean(judge.identity.device)}"
            console.print(sheet({"token": server.access.token, "judges": judged}), soft_wrap=True)
            if server.access.numbers:
                stderr().print(Text("not encrypted: who can read the network sees the token", style=WARN))
            server.serve_forever()
    except KeyboardInterrupt:
        console.print(Text("ended", style=DIM))
