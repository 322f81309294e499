"""The daemon: parts are made, joined, started and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from functools import partial

from mulligan import logs
from mulligan.config import Config, load
from mulligan.control import handlers as _handlers  # noqa: F401 - registers the methods
from mulligan.control.server import Server, bind
from mulligan.control.services import Services
from mulligan.errors import MulliganError
from mulligan.events import Bus, Event
from mulligan.journal.retention import Policy
from mulligan.paths import Places, claude_config_dirs
from mulligan.project import upkeep
from mulligan.project.checkpoints import Request
from mulligan.project.integrity import Integrity
from mulligan.project.opcode_import import REASON as ARCHIVED
from mulligan.project.registry import Registry
from mulligan.project.settings import Settings
from mulligan.project.space import Space
from mulligan.store.state import StateDatabase, default_budget
from mulligan.store.store import Store
from mulligan.supervisor.activation import inherited_sockets
from mulligan.supervisor.address import remove_address, write_address
from mulligan.supervisor.adoption import Adoption
from mulligan.supervisor.collecting import COLLECT_SECONDS, ROOM_SECONDS, Collecting
from mulligan.supervisor.follow import Follower
from mulligan.supervisor.growth import Growth
from mulligan.supervisor.handing_off import HandingOff
from mulligan.supervisor.hooks import Hooks
from mulligan.supervisor.indexing import LOOK_SECONDS, Indexing
from mulligan.supervisor.integrity_jobs import IntegrityJobs
from mulligan.supervisor.kept import KeptTranscripts
from mulligan.supervisor.notify import Notifier
from mulligan.supervisor.schedule import Schedule
from mulligan.supervisor.signals import handled
from mulligan.supervisor.snapshots import LOOK_SECONDS as SNAPSHOT_SECONDS
from mulligan.supervisor.snapshots import Snapshots
from mulligan.supervisor.state_triggers import StateTriggers
from mulligan.supervisor.tasks import Tasks
from mulligan.taskstate.handoff_files import HandoffFiles
from mulligan.taskstate.handoffs import Handoffs
from mulligan.taskstate.legacy_import import LegacyImport
from mulligan.taskstate.store import TaskStates
from mulligan.watch.observer import make_observer

log = logging.getLogger(__name__)
#: Captures and requests share the interpreter: the default of 5 ms makes one wait for the other.
_SWITCH_SECONDS = 0.0005
_STATUS_SECONDS = 60.0
_CLEANUP_SECONDS = 3600.0
_GROWTH_SECONDS = 900.0


class Daemon:
    """One daemon from start to end. Constructing does no I/O; `run` does it all and returns when it was stopped."""

    def __init__(self, places: Places, environ: dict[str, str], config: Config) -> None:
        self._places, self._environ, self._config = places, environ, config
        self._tasks = Tasks()
        self._notifier = Notifier(self._environ)

    async def run(self) -> None:
        """Open the store, watch, serve until stopped. Raises LockedError, NewerFormatError, ConfigError."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        inherited = inherited_sockets(self._environ)
        self._store = await asyncio.to_thread(Store, self._places.data_dir)
        try:
            listener = inherited[0].socket if inherited else bind(self._places.socket)
            self._assemble()
            with handled(self._loop, stop=self._stopping.set, reload=self._reload_from_signal):
                await self._serve(listener, owns_socket=not inherited)
        finally:
            await asyncio.to_thread(self._store.close)

    def _assemble(self) -> None:
        self._bus = Bus(self._store.clock.now)
        self._state = StateDatabase(self._state_path())
        self._states = TaskStates(self._state, self.config, self._store.clock.now)
        self._handoffs = Handoffs(self._store, self._states, HandoffFiles(self._places.data_dir, self.config))
        self._states.on_change = self._handoffs.changed
        self._legacy = LegacyImport(self._states, self._places.data_dir, self.config, self._store.clock.now)
        self._bus.subscribe(self._on_event, None)
        self._settings = Settings(self._state, self.config)
        self._registry = Registry(
            self._store, self._bus, self.config, self._places, make_observer, self._settings.budget_of
        )
        default = default_budget(self._state, self._store.directory)
        self._store.set_budget(self._config.budget_bytes or default)
        self._space = Space(
            self._store, self._registry, self._bus, self._state, lambda: upkeep.configured(self._config)
        )
        self._space.eraser.erase_beside = self._erase_beside
        self._schedule = Schedule(self._store.clock)
        self._integrity = Integrity(self._store, self._state, self._bus)
        self._services = Services(
            store=self._store,
            registry=self._registry,
            settings=self._settings,
            state=self._state,
            states=self._states,
            handoffs=self._handoffs,
            legacy=self._legacy,
            integrity=self._integrity,
            bus=self._bus,
            places=self._places,
            config=self.config,
            claude_config_dirs=self._claude_dirs(),
            started=self._store.clock.now(),
            space=self._space,
            default_budget=default,
            stop=lambda: self._threadsafe(self._stopping.set),
            reload=self.reload,
        )
        self._collecting = Collecting(self._space, self._store, self._threadsafe, self._tasks.spawn)
        self._indexing = Indexing(self._store, lambda: self._services.index_budget)
        self._integrity_jobs = IntegrityJobs(self._store, self._state, self._integrity, self._bus, self.config)
        self._triggers = StateTriggers(self._states, self._store)
        self._follow()
        self._server = Server(self._services, self._tasks.spawn)

    def _follow(self) -> None:
        """Make what listens to agents, and let requests reach it."""
        self._adoption = Adoption(self._registry, self.config)
        self._kept = KeptTranscripts(self._places.data_dir, self._store.clock)
        self._follower = Follower(
            self._store,
            self._registry,
            self._settings,
            [*self._services.claude_config_dirs, self._kept.directory],
            self._adoption,
            self._triggers.observe,
        )
        self._follower.on_end = self._handoffs.changed
        self._services.track = self._follower.track
        self._services.forget = self._follower.forget
        hooks = Hooks(self._registry, self._follower, self._states, self._store.clock, self._kept)
        self._services.deliver_hook, self._services.hook_counts = hooks.deliver, hooks.describe
        self._services.transcript_counts = self._follower.describe
        self._services.found_projects = self._follower.found_projects

    def _state_path(self) -> str:
        """The environment is nearer than the file; what the file says holds from the next start on."""
        configured = self._config.state_database(self._places.home)
        return configured if configured and not self._environ.get("MULLIGAN_STATE_DB") else self._places.state_db

    def _erase_beside(self, project: bytes, sessions: list[str]) -> None:
        """Erase what of a project does not lie in the store; the hand-offs go with the states."""
        self._kept.erase(sessions)
        self._legacy.erase(project)
        self._states.erase(project)

    def config(self) -> Config:
        """The configuration in effect."""
        return self._config

    def _on_event(self, event: Event) -> None:
        """A project begins to be watched: it may have task state of an older program."""
        if event.topic == "project" and event.data.get("state") == "watching":
            root = os.fsencode(event.data["project"])
            self._threadsafe(lambda: self._look_for_older_state(root))

    def _look_for_older_state(self, root: bytes) -> None:
        self._tasks.spawn(asyncio.to_thread(self._legacy.begin, root), "older task state")

    def _claude_dirs(self) -> list[str]:
        named = self._config.directories("claude_config_dirs", self._places.home)
        return list(dict.fromkeys([*named, *claude_config_dirs(self._environ)]))

    def _threadsafe(self, function: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(function)

    async def _serve(self, listener: socket.socket, *, owns_socket: bool) -> None:
        # interrupted operations are finished or rolled back by the workers before they answer anything
        await asyncio.to_thread(self._registry.start)
        self._kept.open()
        await self._server.start(listener)
        write_address(self._places, self._services.claude_config_dirs, self._services.started)
        self._follower.start()
        self._schedule.start()
        self._schedule.every(_STATUS_SECONDS, "status", self._tell_status)
        if self._notifier.watchdog_seconds:
            self._schedule.every(self._notifier.watchdog_seconds, "watchdog", self._alive)
        self._schedule.every(_CLEANUP_SECONDS, "cleanup", self._clean_up)
        self._schedule.every(COLLECT_SECONDS, "collect", self._collecting.collect)
        self._schedule.every(ROOM_SECONDS, "room", self._collecting.look)
        self._schedule.every(LOOK_SECONDS, "search index", self._indexing.look)
        self._schedule.every(SNAPSHOT_SECONDS, "snapshot", Snapshots(self._store).look)
        self._schedule.every(_GROWTH_SECONDS, "growth", Growth(self._services).look)
        self._integrity_jobs.schedule(self._schedule)
        self._schedule_interval()
        self._tasks.spawn(self._collecting.begin(), "room")
        handing_off = HandingOff(self._handoffs, self.config, self._threadsafe, self._tasks.spawn)
        self._tasks.spawn(handing_off.begin(), "hand-offs")
        self._notifier.ready(self._status_text())
        log.info("mulligand answers at %s", self._places.socket)
        await self._stopping.wait()
        self._notifier.stopping("finishing the write in hand")
        self._store.interrupt()
        self._integrity_jobs.stop()
        await self._schedule.stop()
        await self._server.close()
        await asyncio.to_thread(self._follower.stop)
        await handing_off.stop()
        await asyncio.to_thread(self._registry.stop)
        await asyncio.to_thread(self._store.log_end)
        await self._tasks.cancel()
        remove_address(self._places)
        if owns_socket:
            self._remove_socket(listener)
        self._state.close()
        log.info("stopped")

    def _remove_socket(self, listener: socket.socket) -> None:
        try:
            os.unlink(self._places.socket)
        except OSError:
            log.debug("the socket was gone already")
        listener.close()

    async def _alive(self) -> None:
        self._notifier.alive()

    async def _tell_status(self) -> None:
        self._notifier.status(self._status_text())
        await asyncio.to_thread(self._store.log_clock)

    def _schedule_interval(self) -> None:
        self._schedule.cancel("interval")
        if self._config.interval:
            self._schedule.every(self._config.interval, "interval", self._take_interval)

    async def _clean_up(self) -> None:
        """Forget what the configured policy does not keep, project by project, and states that nothing refers to."""
        await asyncio.to_thread(self._kept.sweep)
        policy = upkeep.configured(self._config)
        for worker in self._registry.workers() if policy != Policy() else ():
            # what an import has brought is old from the start
            if worker.health.state != "failed" and worker.record().reason != ARCHIVED:
                await asyncio.wrap_future(worker.call(partial(upkeep.clean_up, worker, policy)))
        await asyncio.to_thread(self._triggers.drop_versions)

    async def _take_interval(self) -> None:
        """A checkpoint of every project whose tree is not the one of its current checkpoint."""
        for worker in self._registry.workers():
            settings = self._settings.effective(os.fsdecode(worker.root))
            if not settings["auto_checkpoint"]["value"] or settings["strategy"]["value"] == "manual":
                continue
            if worker.health.state == "watching":
                request = Request("interval", strategy=settings["strategy"]["value"], only_if_different=True)
                await asyncio.wrap_future(worker.call(partial(worker.checkpoint, request)))

    def _status_text(self) -> str:
        workers = self._registry.workers()
        watching = sum(worker.health.state == "watching" for worker in workers)
        text = f"{watching} of {len(workers)} projects watched"
        return f"read-only: {self._store.damage}" if self._store.damage else text

    def reload(self) -> None:
        """Swap the configuration if the file is valid; else ConfigError, and the old one stays in effect."""
        config = load(self._places.config_file)
        self._config = config
        self._adoption.forget()
        logs.set_level(config.log_level)
        self._store.set_budget(config.budget_bytes or self._services.default_budget)
        self._threadsafe(self._schedule_interval)
        self._registry.reconfigure()
        self._space.set_budgets()
        self._bus.publish("daemon", state="reloaded")
        log.info("the configuration was read again")

    def _reload_from_signal(self) -> None:
        self._tasks.spawn(self._reload_aside(), "reload")

    async def _reload_aside(self) -> None:
        """Reload in a thread: a project that is excluded now may have work in hand."""
        self._notifier.reloading()
        try:
            await asyncio.to_thread(self.reload)
        except MulliganError as error:
            log.error("the configuration was not taken: %s (%s)", error.message, error.hint)
        self._notifier.ready(self._status_text())
