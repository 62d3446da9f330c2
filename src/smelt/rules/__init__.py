"""Default schedules: tile sizes in closed form from the hardware's description."""
