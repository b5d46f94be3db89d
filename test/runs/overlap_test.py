"""What is predicted is what runs, and overlap is worth what is said: kernels sleep, everything else is real.

Medians over steps; a step is made long against a machine's jitter by the factor that tasks sleep. Runs that sleep do so side by side.
"""

import concurrent.futures
import sys

import runs
import overlap  # noqa: E402: bench/overlap.py, found through runs

WITHIN = 0.05
LEAST_GAIN = 1.3
MOST_IDLE = 0.03
MOST_SCHEDULING = 0.02  # The goal is 0.01 on a processor of its own (bench/overlap.py); here other tests run beside it.
ATTEMPTS = 3  # The machine is shared: a claim fails where it fails every time.


def close(found):
    return abs(found["executed"] / found["simulated"] - 1) <= WITHIN


def phrase(found):
    return f"{found['executed']:.3f} s, simulated {found['simulated']:.3f} s, scheduling {found['scheduling']:.2%}"


def until(good, attempt):
    """The first result that is good, else the last."""
    for _ in range(ATTEMPTS):
        found = attempt()
        if good(found):
            break
    return found


def judge_orders(scratch, devices, plans, least_gain, each):
    def good(found):
        wave, file = found
        return (close(wave) and close(file) and file["executed"] >= least_gain * wave["executed"]
                and wave["scheduling"] <= MOST_SCHEDULING)

    wave, file = until(good, lambda: overlap.both_asleep(scratch, plans, each))
    scratch.check(f"{devices} devices: the planner's layout takes its simulated time", close(wave), phrase(wave))
    scratch.check(f"{devices} devices: a static split takes its simulated time", close(file), phrase(file))
    gain, simulated = file["executed"] / wave["executed"], file["simulated"] / wave["simulated"]
    scratch.check(f"{devices} devices: a static split in file order takes {least_gain} x as long", gain >= least_gain,
                  f"{gain:.2f} x, simulated {simulated:.2f} x")
    scratch.check(f"{devices} devices: scheduling", wave["scheduling"] <= MOST_SCHEDULING, f"{wave['scheduling']:.2%} of the step")


def judge_ahead(scratch, plan, each):
    def idle(found):
        return found["idle"][max(found["idle"])]

    ahead, waiting = until(lambda found: close(found[0]) and close(found[1]) and idle(found[0]) <= MOST_IDLE,
                           lambda: overlap.ahead_and_waiting(scratch, plan, each))
    scratch.check("running ahead takes its simulated time", close(ahead), phrase(ahead))
    scratch.check("waiting takes its simulated time", close(waiting), phrase(waiting))
    scratch.check("a student whose teacher runs ahead is hardly idle", idle(ahead) <= MOST_IDLE, f"{idle(ahead):.1%} of a steady step")
    scratch.check("one whose teacher waits is", idle(waiting) > MOST_IDLE, f"{idle(waiting):.1%}")


def main() -> int:
    scratch = runs.Scratch("overlap")
    few, many = (overlap.planned_and_static(overlap.mix(scratch, devices)) for devices in (2, 16))  # First: planning does not sleep.
    ahead = overlap.distillation(scratch)
    with concurrent.futures.ThreadPoolExecutor() as judges, concurrent.futures.ThreadPoolExecutor(6) as sleepers:
        for judged in [judges.submit(judge_orders, scratch, 2, few, 1.0, sleepers.map), judges.submit(judge_orders, scratch, 16, many, LEAST_GAIN, sleepers.map),
                       judges.submit(judge_ahead, scratch, ahead, sleepers.map)]:
            judged.result()
    return scratch.finish()


if __name__ == "__main__":
    sys.exit(main())
