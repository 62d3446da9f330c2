"""What programs of the classic stack call, and nothing here needs: schedules by stages, solvers."""
