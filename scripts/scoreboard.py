"""A scoreboard that counts the cycles of a loop on Arm's in-order cores, Cortex-A53 and Cortex-A55.

llvm-mca has models of these cores, but lets a load wait until older multiply-adds have written back, so it predicts far
too many cycles for a kernel's loop.  This model is small enough to be checked by hand
(test/project/scoreboard_test.py). It predicts loops whose operands are in the L1 cache and whose branches are
predicted; it is no measurement.

Sources
  [gcc]    GCC's cortex-a53.md, contributed by Arm
  [llvm]   LLVM's AArch64SchedA53.td and AArch64SchedA55.td; comments there quote Arm's guides
  [slothy] SLOTHY's cortex_a55.py: Arm's Cortex-A55 software optimization guide, corrected by measurements
  [ncnn]   ncnn's page "arm a53 a55 dual issue"
  [xnn]    how XNNPACK's f32 gemm kernels for these two cores are laid out, and their comments
  [ort]    ONNX Runtime's pull request 10754 about the A55
  [qsdr]   daniestevez/qsdr: benchmarks of single instructions and pairs of them, measured on an A53
  [guess]  no source

Issue
  - In order, at most two instructions a cycle; none before its operands are there.                      [gcc][llvm]
  - An instruction that takes several cycles to issue has both slots to itself for all of them.           [gcc][ort]
  - One load or store, one branch and one integer multiplication a cycle; two other integer operations.   [gcc][llvm]
  - A taken branch ends the cycle's pair; there is no bubble behind it.                                   [guess]
  - Flags are there one cycle after they are set.                                                        [guess]
Loads and stores
  - 64 bits a cycle.  128-bit vector loads (also ld1 of one register) take two cycles, ldp of d or x registers two,
    ldp of q registers four.                                                                    [ncnn][ort][slothy]
  - ldp of w registers: one cycle, alone.                                                                [gcc][llvm]
  - A53: a vector load of 64 bits or less does not pair with vector arithmetic, a load of a general register does.
    A55: both do.                                                                                        [ncnn][xnn]
    ([slothy] gives such a load one half of the vector unit on the A55: then it would pair there no better than on A53.)
  - Stores: 128 bits a cycle; a vector store does not pair with vector arithmetic.                   [llvm][slothy]
  - A loaded vector: 4 cycles later on the A53 [llvm], 3 on the A55 [slothy]; one more for every further 64 bits.
  - A loaded general register.  A53: to integer arithmetic 2, to an address 3 [gcc], else 3.  A55: 3, to an address 2
    [llvm], to ins 2: [xnn] leaves no more between them ([slothy] has 4 for everything, from a measurement; where an
    A55 needs 3 before ins, loops in that style lose a fifth).
  - An address needs its register early: 3 cycles after an integer operation on the A53 [gcc], 2 on the A55 [llvm].
    The update of a pre- or post-indexed base is there in the next cycle.                                      [llvm]
Vector arithmetic
  - Two units of 64 bits: one 128-bit operation a cycle, or two of 64 bits.                          [llvm][slothy]
    Peak 4 f32 MAC a cycle on both cores.  (LLVM's A55 allows two 128-bit fmla a cycle, newer models of the A53 one in
    two cycles; OpenBLAS' pull request 2643 measured 2.2 MAC a cycle on an A53 for a whole sgemm.)
  - fmla: 8 cycles on the A53, 4 to the accumulator of the next [gcc][llvm]; 4 on the A55 [llvm].
  - Integer multiply-accumulate, product of matrices and dot product: 4 [llvm], 1 to the accumulator of the next
    [guess]; a product (smull) the same.  sadalp: 4, also to the next one [llvm].
  - Other f32 arithmetic 4, the rest 3 on the A53, 2 on the A55.                                     [llvm][slothy]
  - f32 divisions: 18 cycles on the A53, 13 on the A55; the next one issues 14 and 10 cycles later, and only
    divisions wait for that.                                                                                   [llvm]
  - From a general register into a vector (ins, dup, fmov): 4 cycles later on the A53 [gcc], 2 on the A55 [slothy].
    A53: one a cycle, of ins two [qsdr]; pairs with a load, but not with 128-bit arithmetic.  A55: one; with both.
                                                                                                          [ncnn][xnn]
  - From a vector to a general register: 3 cycles.                                                    [gcc][slothy]
Not modelled: cache misses, fetch, branch misprediction, integer divisions beyond a guess of their latency,
write-after-write.

One rule is known only by hearsay: on the A53 "any vector load cannot be issued on the 4th cycle of each fmla" [ncnn],
the cycle in which the addition of the multiply-add begins; [xnn] places its loads four cycles apart for that.  Nobody
says how long such a load waits.  cycles(..., late_loads=True) lets it wait for a cycle that is not the fourth after any
multiply-add, which is the worst that the rule can mean.
"""

import collections
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Core:
    name: str
    fma: int  # fmla to any other operand
    fma_chain: int  # fmla to the accumulator of the next
    simple: int  # vector logic, integer additions, permutations
    load_integer: int  # loaded general register to integer arithmetic
    load_address: int  # to an address
    load_transfer: int  # to ins, dup, fmov
    vector_load: int  # loaded vector register of 64 bits or less to any use
    address: int  # integer operation to address
    from_general: int  # ins, dup, fmov from a general register
    division: int  # of floats
    next_division: int  # cycles from one to the next
    load_beside_vector: bool  # a short vector load pairs with vector arithmetic
    transfer_halves: int  # units that ins from a general register takes
    two_inserts: bool  # ins from general registers pair


A53 = Core("cortex-a53", fma=8, fma_chain=4, simple=3, load_integer=2, load_address=3, load_transfer=3,
           vector_load=4, address=3, from_general=4, division=18, next_division=14, load_beside_vector=False,
           transfer_halves=1, two_inserts=True)
A55 = Core("cortex-a55", fma=4, fma_chain=4, simple=2, load_integer=3, load_address=2, load_transfer=2,
           vector_load=3, address=2, from_general=2, division=13, next_division=10, load_beside_vector=True,
           transfer_halves=0, two_inserts=False)
CORES = {core.name: core for core in (A53, A55)}

FLOAT_ARITHMETIC = 4
INTEGER_MAC = 4
INTEGER_MAC_CHAIN = 1
MULTIPLY = 3
DIVIDE = 12
TO_GENERAL = 3

SIZES = {"q": 16, "d": 8, "s": 4, "h": 2, "b": 1, "x": 8, "w": 4}
FLOAT_MAC = re.compile(r"f(n?m(add|sub)|ml[as]l?2?)$|bfmlal[bt]$|bfm?mla$|bfdot$")
INTEGER_MACS = re.compile(r"ml[as]$|[su]ml[as]l2?$|sqdml[as]l2?$|(s|u|us|su)dot$|(s|u|us)mmla$|sqrdml[as]h$")
INTEGER_PRODUCTS = re.compile(r"[su]mull2?$")  # of vectors: as multiply-accumulates, but they read no accumulator
PAIRWISE = re.compile(r"[su]adalp$")
FLAGS = re.compile(r"(adds|subs|ands|bics|cmp|cmn|tst|ccmp|ccmn|fcmpe?|adcs|sbcs|negs)$")
READS_FLAGS = re.compile(r"(b\.\w+|csel|cset|csetm|csinc|csinv|csneg|cinc|cinv|cneg|fcsel|ccmp|ccmn|adc|sbc)$")
# Vector instructions that keep a part of their destination.
MERGES = re.compile(r"(ins|bit|bif|bsl|tbx|sli|sri|[su]r?sra|[su]aba.*|\w+n2|fcvtn2|[su]adalp)$")


@dataclasses.dataclass
class Op:
    """The properties of an instruction that the scoreboard needs."""
    text: str
    kind: str = "integer"  # integer multiply divide load store branch nop float_mac integer_mac pairwise float
                           # division simple from_general to_general
    cycles: int = 1  # to issue
    alone: bool = False
    halves: int = 0  # of the vector unit
    vector_load: bool = False
    vector_store: bool = False
    reads: list = dataclasses.field(default_factory=list)  # (register, data | address | accumulator)
    writes: list = dataclasses.field(default_factory=list)
    base: str = ""  # register that a pre- or post-indexed access updates


def split_operands(text):
    """Splits operands: 'v0.4s, [x1, #16], {v1.4s, v2.4s}' has three."""
    parts = re.findall(r"\s*(\{[^}]*\}(?:\[\d+\])?|\[[^\]]*\]!?|[^,]+)", text)
    return [part.strip() for part in parts if part.strip()]


def registers(operand):
    """The registers that an operand names: x0 for w0, v0 for any view of it.  A range {v0.4s-v3.4s} names v0 to v3."""
    found = re.findall(r"\b([xwvqdshbz])(\d+)\b(?:\.\w+)?(\s*-\s*[vz](\d+))?", operand)
    names = []
    for bank, number, _, last in found:
        letter = "x" if bank in "xw" else "v"
        names += [f"{letter}{index}" for index in range(int(number), int(last or number) + 1)]
    return names + (["sp"] if re.search(r"\bw?sp\b", operand) else [])


def is_vector(operand):
    return bool(re.match(r"\{?\s*[vqdshbz]\d+\b", operand))


def is_general(operand):
    return bool(re.match(r"([xw]\d+|[xw]zr|w?sp)\b", operand))


def view_bytes(operand):
    """Returns the bytes of the part of a register that an operand names: v0.4s 16, v0.2s 8, d0 8, v0.s[1] 4."""
    arrangement = re.match(r"v\d+\.(\d+)([bhsd])", operand)
    if arrangement:
        return int(arrangement[1]) * SIZES[arrangement[2]]
    lane = re.match(r"v\d+\.([bhsd])", operand)
    return SIZES[lane[1]] if lane else SIZES.get(operand[0], 16)


def decode_memory(name, operands, op):
    """Fills in an Op for a load or store."""
    split = next(index for index, operand in enumerate(operands) if operand.startswith("["))
    data, address, behind = operands[:split], operands[split], operands[split + 1:]
    names = [register for operand in data for register in registers(operand)]
    vector = is_vector(data[0])
    if data[0].startswith("{"):
        lane = data[0].endswith("]") or name.endswith("r")
        element = re.search(r"\.\d*([bhsd])", data[0])[1]
        size = len(names) * (SIZES[element] if lane else view_bytes(data[0].strip("{ ")))
        lane = data[0].endswith("]")
    else:
        size = sum(view_bytes(operand) for operand in data)
        lane = False
    width = 16 if op.kind == "store" else 8
    op.cycles = max(1, -(-size // width))
    op.alone = op.cycles > 1 or (len(data) == 2 and not vector and op.kind == "load")
    op.vector_load = vector and op.kind == "load"
    op.vector_store = vector and op.kind == "store"
    op.reads = [(register, "address") for register in registers(address) + [r for b in behind for r in registers(b)]]
    if op.kind == "store" or lane:
        op.reads += [(register, "data") for register in names]
    if op.kind == "load":
        op.writes = names
    if behind or address.endswith("!"):
        op.base = registers(address)[0]


def decode_vector(name, operands, op):
    """Fills in an Op for vector arithmetic, or for a move between the two register files."""
    target, sources = operands[0], operands[1:]
    op.kind = "simple"
    accumulates = False
    if FLOAT_MAC.match(name) or INTEGER_MACS.match(name):
        op.kind = "float_mac" if FLOAT_MAC.match(name) else "integer_mac"
        accumulates = True
    elif INTEGER_PRODUCTS.match(name):
        op.kind = "integer_mac"
    elif PAIRWISE.match(name):
        op.kind = "pairwise"
    elif is_general(target):
        op.kind = "to_general"
    elif sources and is_general(sources[0]):
        op.kind = "from_general"
    elif name.startswith("f") and not name.startswith("fcm") and name != "fmov":
        op.kind = "division" if name == "fdiv" else "float"
    sizes = [view_bytes(operand) for operand in operands if is_vector(operand) and "[" not in operand]
    op.halves = 2 if max(sizes, default=8) > 8 else 1
    if op.kind == "from_general":
        op.halves = 1
    scalar = re.match(r"fn?m(add|sub)$", name)  # the accumulator is the last operand, not the target
    for index, operand in enumerate(sources):
        role = "accumulator" if scalar and index == 2 else "data"
        op.reads += [(register, role) for register in registers(operand)]
    if accumulates and not scalar:
        op.reads += [(register, "accumulator") for register in registers(target)]
    elif "[" in target or MERGES.match(name):
        op.reads += [(register, "data") for register in registers(target)]
    op.writes = registers(target)


def decode_integer(name, operands, op):
    """Fills in an Op for arithmetic on general registers."""
    if re.match(r"[su]?m(ul|add|sub|neg)[lh]?$", name):
        op.kind = "multiply"
    elif name in ("udiv", "sdiv"):
        op.kind = "divide"
    compares = name in ("cmp", "cmn", "tst", "ccmp", "ccmn")
    for operand in operands if compares else operands[1:]:
        op.reads += [(register, "data") for register in registers(operand)]
    if operands and not compares:
        op.writes = registers(operands[0])


def decode(text):
    """Makes an Op of one line of assembly, as objdump or a programmer writes it."""
    name, _, rest = re.sub(r"\s+", " ", text.strip().lower()).partition(" ")
    operands = split_operands(rest)
    op = Op(" ".join(text.split()))
    if re.match(r"(b|bl|br|blr|ret|b\.\w+|cbn?z|tbn?z)$", name):
        op.kind = "branch"
        op.reads = [(register, "data") for operand in operands[:1] for register in registers(operand)
                    if name[:2] in ("cb", "tb")]
    elif name in ("nop", "hint", "bti"):
        op.kind = "nop"
    elif name.startswith("prf"):
        op.kind = "load"
        op.reads = [(register, "address") for operand in operands for register in registers(operand)]
    elif re.match(r"(ld|st)", name) and any(operand.startswith("[") for operand in operands):
        op.kind = "load" if name.startswith("ld") else "store"
        decode_memory(name, operands, op)
    elif any(is_vector(operand) for operand in operands):
        decode_vector(name, operands, op)
    else:
        decode_integer(name, operands, op)
    if FLAGS.match(name):
        op.writes = op.writes + ["flags"]
    if READS_FLAGS.match(name):
        op.reads = op.reads + [("flags", "data")]
    return op


def loaded(core, load, role, reader):
    """Returns the cycles from the last cycle of a load until a reader may use its result."""
    if load.vector_load:
        return core.vector_load
    if role == "address":
        return core.load_address
    return core.load_transfer if reader.kind in ("from_general", "store") else core.load_integer


def latency(core, producer, register, role, reader):
    """Returns the cycles from the issue of an Op until a reader may use a register that it writes."""
    if register == "flags" or register == producer.base:
        return 1
    if producer.kind == "load":
        return loaded(core, producer, role, reader) + producer.cycles - 1
    if producer.kind == "integer":
        return core.address if role == "address" else 1
    if producer.kind == "float_mac":
        return core.fma_chain if role == "accumulator" and reader.kind == "float_mac" else core.fma
    if producer.kind == "integer_mac":
        return INTEGER_MAC_CHAIN if role == "accumulator" and reader.kind == "integer_mac" else INTEGER_MAC
    return {"multiply": MULTIPLY, "divide": DIVIDE, "float": FLOAT_ARITHMETIC, "division": core.division,
            "pairwise": INTEGER_MAC, "simple": core.simple, "from_general": core.from_general,
            "to_general": TO_GENERAL}.get(producer.kind, 1)


def halves(core, op):
    return core.transfer_halves if op.kind == "from_general" else op.halves


def pairs(core, first, second):
    """Can two independent instructions issue in one cycle?"""
    both = (first, second)
    if first.alone or second.alone or first.kind == "branch":
        return False
    for kinds in (("load", "store"), ("branch",), ("multiply", "divide")):
        if all(op.kind in kinds for op in both):
            return False
    if all(op.kind == "from_general" for op in both):
        if not core.two_inserts or not all("[" in op.text for op in both):
            return False
    if sum(halves(core, op) for op in both) > 2:
        return False
    arithmetic = any(op.halves and op.kind != "from_general" for op in both)
    if arithmetic and any(op.vector_store for op in both):
        return False
    return core.load_beside_vector or not arithmetic or not any(op.vector_load for op in both)


class Scoreboard:
    """Issues instructions one after the other and counts what the cycles are spent on."""

    def __init__(self, core, late_loads):
        self.core, self.late_loads = core, late_loads
        self.cycle, self.group = 0, []
        self.free = 0  # first cycle in which another instruction may issue alone
        self.written = {}  # register -> (cycle of issue, Op)
        self.division = 0, None  # first cycle in which another division may issue, and the last one
        self.macs = collections.deque(maxlen=16)  # cycles in which float multiply-adds were issued
        self.spent = collections.Counter()  # kind of instruction, or wait -> cycles spent on it
        self.waits = collections.Counter()  # (producer, consumer) -> cycles lost between them

    def operands(self, op):
        """The first cycle in which all operands, and the divider if need be, are there, and the Op that comes last."""
        ready, last = self.division if op.kind == "division" else (0, None)
        for register, role in op.reads:
            if register in self.written:
                issued, producer = self.written[register]
                cycle = issued + latency(self.core, producer, register, role, op)
                if cycle > ready:
                    ready, last = cycle, producer
        return ready, last

    def collides(self, op, cycle):
        """Would a vector load issue in the fourth cycle after a multiply-add?"""
        return op.vector_load and any(cycle + step - 4 in self.macs for step in range(op.cycles))

    def issue(self, op):
        ready, producer = self.operands(op)
        joins = len(self.group) == 1 and ready <= self.cycle and pairs(self.core, self.group[0], op)
        if joins and not (self.late_loads and self.collides(op, self.cycle)):
            self.group.append(op)
        else:
            start = max(ready, self.free)
            if start > self.free:
                self.spent["wait"] += start - self.free
                self.waits[(producer.text, op.text)] += start - self.free
            while self.late_loads and self.collides(op, start):
                start += 1
                self.spent["late load"] += 1
            self.cycle, self.group, self.free = start, [op], start + op.cycles
            self.spent[op.kind] += op.cycles
        # A cycle counts for the arithmetic in it, not for an instruction that issues beside the arithmetic.
        if len(self.group) == 2 and op.kind.endswith("_mac") and not self.group[0].kind.endswith("_mac"):
            self.spent[self.group[0].kind] -= 1
            self.spent[op.kind] += 1
        if op.kind == "float_mac":
            self.macs.append(self.cycle)
        if op.kind == "division":
            self.division = self.cycle + self.core.next_division, op
        for register in op.writes + [op.base] * bool(op.base):
            self.written[register] = (self.cycle, op)


@dataclasses.dataclass
class Result:
    cycles: float  # per iteration
    spent: dict  # kind of instruction, or wait -> cycles per iteration; their sum is cycles
    waits: list  # (producer, consumer, cycles per iteration), longest first


def run(lines, core, late_loads=False, first=20, last=60):
    """Runs a loop, given as lines of assembly, and returns its steady state: from iteration `first` to `last`."""
    ops = [decode(line) for line in lines]
    board = Scoreboard(core, late_loads)
    for iteration in range(last):
        if iteration == first:
            begin, board.spent, board.waits = board.free, collections.Counter(), collections.Counter()
        for op in ops:
            board.issue(op)
    count = last - first
    waits = [(producer, consumer, cycles / count) for (producer, consumer), cycles in board.waits.most_common()]
    return Result((board.free - begin) / count, {kind: n / count for kind, n in board.spent.items() if n}, waits)


def cycles(lines, core, late_loads=False):
    return run(lines, core, late_loads).cycles
