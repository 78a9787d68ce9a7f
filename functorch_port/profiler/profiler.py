"""``torch.profiler.profiler``."""

from . import ExecutionTraceObserver as ExecutionTraceObserver
from . import ProfilerAction as ProfilerAction
from . import ProfilerActivity as ProfilerActivity
from . import profile as profile
from . import schedule as schedule
from . import supported_activities as supported_activities
from . import tensorboard_trace_handler as tensorboard_trace_handler
