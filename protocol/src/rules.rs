//! Switches for the safety rules, so that a test can prove that it would fail without one.
//!
//! Production code asks `rules.on(Rule::X)`. In a release every rule is on and cannot be switched
//! off: [`Rules::without`] exists only under the feature `switchable-rules`, which only tests name.

/// The rules that a named simulation proves by switching them off.
/// Section numbers are those of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rule {
    /// 4: `Fire` is refused when version or watermark moved since it was computed.
    FireComparesAndSwaps,
    /// 4: a run and the watermark move in one command; (job, fire time) is unique.
    RunAndWatermarkTogether,
    /// 4: `PutJob` settles every owed instant of the old version.
    PutSettlesOwedInstants,
    /// 4: a deleted job leaves a tombstone that keeps id and watermark.
    Tombstones,
    /// 4: a manual run may not name an instant that is still to come.
    ManualRunsStayInThePast,
    /// 4: overlap is judged again in `apply`.
    OverlapJudgedInApply,
    /// 4: every execution takes a new fence when it leaves `waiting`.
    FencePerExecution,
    /// 4: an unknown outcome of an unsafe job goes to a person.
    UnsafeUnknownGoesToPerson,
    /// 4: `interrupted`, `refused` and `never_started` use up no retry.
    InterruptionsAreFree,
    /// 4: missed fires beyond the newest become one gap.
    MissedFiresBecomeOneGap,
    /// 4: a row that cannot be read stops its own job only.
    PoisonStaysAlone,
    /// 4: what the ledger refuses again and again is proposed ever more rarely.
    RefusedRests,
    /// 4, 9: a shard that nobody can take goes to a person.
    UnplaceableGoesToPerson,
    /// 5: instants are computed over (watermark, now], not "is it this minute now?".
    InstantsFromWatermark,
    /// 5: after a clock step nothing fires until the clock has stood still.
    ClockGate,
    /// 5: after a start of the machine nothing fires before its clock has been held against the
    /// hosts'.
    ClockComparedAfterBoot,
    /// 5: a clock that the fleet contradicts fires nothing.
    FleetContradicts,
    /// 5: a clock that most of the control machines' contradict fires nothing.
    ControlClocksContradict,
    /// 5: where most of the control machines' clocks agree, a new leader need not hear the hosts
    /// first.
    ControlClocksSpareHosts,
    /// 5: a clock that its own time service contradicts fires nothing, where nobody else has a say.
    TimeServiceContradicts,
    /// 5: where other clocks agree with this one, its time service's word stops nothing.
    AgreementOutweighsTimeService,
    /// 5: a leader whose clock is held gives the lead to a coordinator with a better one.
    HeldClockHandsOver,
    /// 5: who has a clock that is held begins no reign that such a coordinator could have.
    WrongClockDeclines,
    /// 5: a job that fires more often than its schedule names is stopped.
    FuseStopsFlood,
    /// 5: a backlog of more than an hour is told of.
    BacklogTold,
    /// 5: backoff and leases run on the boot clock.
    BackoffOnBootClock,
    /// 6.1: nobody hears of a grant, or of any answer, before it is committed.
    GrantBeforeWord,
    /// 6.2: `never_started` only on the word of the supervisor alive at the grant.
    NeverStartedNeedsSameSupervisor,
    /// 6.2: a leased attempt that the attach does not list is released by that attach.
    AttachReleasesNeverStarted,
    /// 6.2: what cannot be verified dead waits for expiry.
    LostNeedsVerifiedDead,
    /// 6.2: a sweep proves what is dead on its own boot, and nothing of another.
    SweepProvesItsOwnBoot,
    /// 6.5: what a host says of its attempts is the word of a supervisor that answers.
    SupervisorMustAnswer,
    /// 6.3: two processes under one identity are both quarantined.
    DuplicatesQuarantined,
    /// 6.3: the nonce is asked before anybody is called a duplicate.
    NonceBeforeVerdict,
    /// 6.4: an agent refuses a Start whose deadline has passed or of a dead session.
    LateStartRefused,
    /// 6.5: a deadline once passed is not revived by a later ack.
    DeadlineLatch,
    /// 6.5: deadlines are passed to the supervisor, which enforces them alone.
    SupervisorEnforcesDeadline,
    /// 6.6: an ack leaves out a lease whose expiry has been proposed.
    AckLeavesOutExpiring,
    /// 6.6: an ack kills only what the acked heartbeat reported.
    AckSparesNewborn,
    /// 6.6: an ack waits for a quorum round begun after the heartbeat arrived.
    AckAfterQuorum,
    /// 6.7: a lease expires only after the full takeover time and margins.
    ExpiryWaitsFullTime,
    /// 6.7: a new leader gives every lease its full time again.
    NewLeaderGivesFullTime,
    /// 6.7: a leader that stalled gives every lease its full time again.
    StalledLeaderGivesFullTime,
    /// 6.7: an expiry rides on a quorum round begun after it came due.
    ExpiryAfterQuorum,
    /// 6.7: an expiry is conditional on the token.
    ExpireNamesToken,
    /// 6.7: several changes of leader without contact raise an alarm.
    FlappingAlarm,
    /// 6.8: commands and words of an earlier epoch are refused.
    EpochChecked,
    /// 6.8: a reign whose leader read the state before another's commands does not begin.
    ReignBeginsFromItsLook,
    /// 6.9: a receipt counts in any epoch, and after expiry while no later grant exists.
    ReceiptCountsWithCurrentToken,
    /// 6.9: a receipt of an overtaken token is recorded as stale.
    StaleReceiptChangesNothing,
    /// 6.9: a receipt that an attach announces is waited for before its shard is granted again.
    ReceiptBeforeRegrant,
    /// 6.10: cancel and rerun wait for the end of the lease.
    LeaseEndsByReceiptOrExpiry,
    /// 8: a shard goes only where all the labels are that it needs.
    LabelsMatched,
    /// 9: a shard goes only to hosts of the class that it needs.
    ClassMatched,
    /// 9: no more of a host is set aside than it offers, and nothing of what nobody knows.
    RoomSetAside,
    /// 8: of shards that wait for a place, those of higher priority go first.
    PriorityFirst,
    /// 8: a grant takes from a shared resource no more than is left of it.
    ResourcesBounded,
    /// 6.10, 9: a cordoned or draining host is granted nothing, whoever attaches in its name.
    CordonHolds,
    /// 9: a host is cordoned by its health only after two looks that agree.
    HealthNeedsTwoLooks,
    /// 9: a host that was cordoned by its health stays so when it has recovered.
    HealthCordonStays,
    /// 9: what an operator has said of a host is not undone by its health.
    OperatorOverHealth,
    /// 9: a rule about health leaves most of the hosts in service, whatever it is told.
    HealthSparesTheFleet,
    /// 6.10: that a host is drained at once is told again at every attach.
    DrainIsToldAgain,
    /// 6: the supervisor sweeps leftovers before it answers.
    SweepBeforeAnswer,
    /// 6: a receipt is held until the ledger has it.
    ReceiptHeldUntilAcked,
    /// 6.11: a guard refuses writes with a token that has been overtaken.
    FencedWrites,
    /// 8: below `misfire.after` a fire is merely late.
    LateIsNotMissed,
    /// 6: a shard is tried elsewhere before it is tried again where it just failed.
    RetriedElsewhere,
    /// 4: a fire that was on its way when its job was paused does not fire.
    PauseJudgedInApply,
    /// 4: a resume moves the watermark over what the pause has kept from firing.
    ResumeSkipsThePast,
    /// 4: a redo of what is not declared harmless must be forced.
    RedoNeedsHarmless,
    /// 4: who is asked to confirm a run is reminded while it lasts.
    PersonIsReminded,
    /// 4: an attempt that its host does not end is given up some time after its time-out.
    TimeoutBoundsLease,
    /// 4, 8: `after` and `previous` are judged in `apply`, at the fire and again at Admit.
    ConditionsJudgedInApply,
    /// 4: only so many catch-up runs of a job are open at once, oldest first.
    CatchUpTakesTurns,
    /// 4: a restore raises the generation above every token that was ever given out.
    RestoreRaisesGeneration,
    /// 4: what came between a backup and its restore is a gap that nobody knows of.
    RestoredScheduleIsUnknown,
    /// 4: what was open in a restored backup goes to a person.
    RestoredRunsGoToPerson,
    /// 4: a receipt of a lease from before the restore decides nothing.
    RestoreOvertakesReceipts,
    /// 4: a restored ledger grants nothing until every lease of before has run out.
    RestoreHoldsGrants,
    /// 4: a run waits no longer than its start deadline.
    WaitingIsBounded,
}

/// Which rules are in force. Everything outside tests runs with [`Rules::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    off: u128,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::all()
    }
}

impl Rules {
    pub const fn all() -> Rules {
        Rules { off: 0 }
    }

    /// All rules but one.
    #[cfg(feature = "switchable-rules")]
    pub const fn without(rule: Rule) -> Rules {
        Rules {
            off: 1 << rule as u8,
        }
    }

    #[inline]
    pub const fn on(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}
