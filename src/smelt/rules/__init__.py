"""Default schedules: tile sizes in closed form from the machine's description."""
