"""The verbs of an advisor that are about whole programs (paper 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain.names import checked_name
from advisor.domain.runs import RunPrediction, checked_run
from advisor.engine.alone import alone
from advisor.engine.checks import checked_level
from advisor.engine.programs import Programs
from advisor.models.prediction import LEVEL


class RunFace:
    """What an `Advisor` says of programs."""

    programs: Programs

    @alone
    def observe_run(
        self,
        program: str,
        *,
        size: float,
        workers: float,
        elapsed_s: float,
        work_s: float,
        delay_s: float,
        no_work_s: float,
        creates: float,
        waits: float,
        serial_work_s: float | None = None,
        span_s: float | None = None,
        transform: str | None = None,
    ) -> dict[str, Any]:
        """Learn one run of a whole program, for an input of `size` on `workers`; see `advisor.domain.runs.ProgramRun`.

        What a profile tells of a run is `advisor.profile.measures.Measures.as_run()`.

        Parameters
        ----------
        transform : str, optional
            What work grows with: ``n``, ``2^n``, ``n^2``, ``n^3``, ``sqrt n`` or ``n!``. A program's first run fixes it; absent
            there: ``n``.

        Returns
        -------
        dict
            program, runs, transform.

        Raises
        ------
        InvalidValue
            For a value outside of its domain, or parts that exceed workers times elapsed; nothing is learned then.
        TooLarge
            When the program is new and there is no room for it.
        """
        run = checked_run(
            program=program, size=size, workers=workers, elapsed_s=elapsed_s, work_s=work_s, delay_s=delay_s,
            no_work_s=no_work_s, creates=creates, waits=waits, serial_work_s=serial_work_s, span_s=span_s,
            transform=transform,
        )  # fmt: skip
        return self.programs.observe(run)

    @alone
    def forget_program(self, program: str) -> dict[str, Any]:
        """Forget a program as a whole: its runs, and its transformation; the next run begins anew.

        Returns
        -------
        dict
            program, runs: how many are forgotten.

        Raises
        ------
        UnknownProgram
        """
        return self.programs.forget(checked_name("program", program))

    @alone
    def predict_run(
        self,
        program: str,
        *,
        size: float | Sequence[float],
        workers: float | Sequence[float],
        level: float = LEVEL,
        model: str | None = None,
    ) -> RunPrediction:
        """Predict a run of a whole program, of larger inputs and on more workers than were seen; scalars, or lists.

        Parameters
        ----------
        model : str, optional
            ``extended`` (the default) or ``printed``, which is paper 3's as it stands.

        Raises
        ------
        UnknownProgram, NotEnoughData, InvalidValue, TooLarge
        """
        return self.programs.predict(checked_name("program", program), size, workers, checked_level(level), model)
