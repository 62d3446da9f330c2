"""What smelt's templates do: a handler of the Project API for each."""
