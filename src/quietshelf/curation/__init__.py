"""The batch protocol: the rules that simulation, `Shelf` and the service run, each written once.

In: public state and one private input (a visit, an answer). Out: what to show, what to keep, what to release. Every
rule is a pure function; the three users add storage and time. docs/proofs.md, section 6, proves what the rules
guarantee. `Shelf` and the service run all of them. A simulation runs R2, R6 and R7 (`quiet_curator`): its visitors are
valid and answer at once, a batch is released as soon as it is full, and policies are asked directly.

| rule | says | where |
|---|---|---|
| R1 validity | a request is valid by itself and public state alone | `requests.visitor_context` |
| R2 slots | the n-th valid arrival takes the n-th slot | `batches.arrive` |
| R3 decision | an offer depends on its visitor, public state, and the slot's own coins | `decisions.decide`, `coins` |
| R4 answers | an answer counts if it was received before its offer expires; the first stands | `answers.answer` |
| R5 due | a batch is due one window after its last slot was taken, and published so | `batches.due` |
| R6 contributions | a function of the slot's own data and of what the batch froze | `contributions`, `persons.admit` |
| R7 one release | announced before it is drawn, then released or burnt | `batches.charge`, `batches.draw` |
| R8 memory | no acknowledged commit is lost, else what it held is burnt | `releases.restore.check`, `shelf.saved` |
"""
