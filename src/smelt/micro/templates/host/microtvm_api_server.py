"""The server of this folder, a template or a project; smelt does the work."""

from smelt.micro.platforms.host import Host
from smelt.micro.project_api import server

if __name__ == "__main__":
    server.main(Host(__file__))
