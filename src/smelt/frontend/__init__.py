"""Front ends: the only place that knows a framework's names."""
