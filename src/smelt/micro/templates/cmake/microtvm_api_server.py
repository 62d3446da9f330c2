"""The server of this folder, a template or a project; smelt does the work."""

from smelt.micro.platforms.cmake import CMake
from smelt.micro.project_api import server

if __name__ == "__main__":
    server.main(CMake(__file__))
